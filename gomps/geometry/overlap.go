// SPDX-License-Identifier: Apache-2.0

package geometry

import "fmt"

// Verdict says whether two pictures show a common part.
type Verdict int

// The verdicts.
const (
	OverlapNo Verdict = iota
	OverlapYes
	OverlapUnsure
)

func (v Verdict) String() string {
	switch v {
	case OverlapNo:
		return "NO"
	case OverlapYes:
		return "YES"
	}
	return "UNSURE"
}

// Overlap is a verdict with its evidence.
type Overlap struct {
	Verdict Verdict
	Reason  string
	// Score is how far the lesser of the two shares is above its threshold: 1 is on
	// it, and between unsureBelow and unsureAbove the verdict is UNSURE.
	Score float64
	// Matched is the share of the starting points that found a sure match, at most 1;
	// Consistent the share of these that fit one epipolar geometry.
	Matched, Consistent float64
	Fundamental         *Mat3 // of the matches' pixels; nil where there is none
	Inliers             []int // the matches that fit it
}

// Two pictures overlap if at least overlapMatched of the starting points have a
// sure match and at least overlapConsistent of these agree on one epipolar
// geometry. The first alone tells pictures of different things; the second, a
// picture that repeats itself. The thresholds and the band between the sure
// verdicts were set on several hundred pairs with known answer: see
// docs/matching.md.
const (
	overlapMatched    = 0.03
	overlapConsistent = 0.40
	unsureBelow       = 0.7
	unsureAbove       = 1.2
)

// JudgeOverlap applies the rule to sure matches a, b found from so many starting
// points of picture 1. tolerance is that of Fundamental, in the matches' pixels.
func JudgeOverlap(a, b []Vec2, seeds int, tolerance float64) (Overlap, error) {
	if seeds < 1 {
		return Overlap{}, fmt.Errorf("geometry: %d starting points, want 1 or more", seeds)
	}
	// Below the least share that matters the verdict is NO, whatever F is.
	f, in, _, err := fundamental(a, b, tolerance, unsureBelow*overlapConsistent)
	if err != nil {
		return Overlap{}, err
	}
	o := Overlap{Fundamental: f, Inliers: in, Matched: min(1, float64(len(a))/float64(seeds))}
	if len(a) > 0 {
		o.Consistent = float64(len(in)) / float64(len(a))
	}
	matched, consistent := o.Matched/overlapMatched, o.Consistent/overlapConsistent
	o.Score = min(matched, consistent)
	what := fmt.Sprintf("%d of %d starting points have a sure match (%.1f %%), %.0f %% of these fit one epipolar geometry",
		len(a), seeds, 100*o.Matched, 100*o.Consistent)
	switch {
	case o.Score >= unsureAbove:
		o.Verdict, o.Reason = OverlapYes, what
	case o.Score >= unsureBelow:
		o.Verdict, o.Reason = OverlapUnsure, what+": on the threshold"
	case matched < consistent:
		o.Verdict, o.Reason = OverlapNo, what+": too few matches"
	default:
		o.Verdict, o.Reason = OverlapNo, what+": the matches disagree"
	}
	return o, nil
}
