// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"fmt"
	"math"
	"slices"
)

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
	// Score is how far the least of the three measures is above its threshold: 1 is on
	// it, and between unsureBelow and unsureAbove the verdict is UNSURE.
	Score float64
	// Matched is the share of the starting points that found a sure match, at most 1;
	// Consistent the share of these that fit one epipolar geometry.
	Matched, Consistent float64
	// Certainty is the median of the matches' certainties; NaN where they have none.
	Certainty   float64
	Fundamental *Mat3 // of the matches' pixels; nil where there is none
	Inliers     []int // the matches that fit it
}

// Two pictures overlap if at least overlapMatched of the starting points have a
// sure match, at least overlapConsistent of these agree on one epipolar geometry, and the
// median of their certainties is at least overlapCertainty. The first tells pictures of
// different things; the second, a picture that repeats itself; the third, two sides of one
// picture, which are alike in texture and light, and whose few matches lie so close
// together that some epipolar geometry fits them. The thresholds and the band between the
// sure verdicts were set on pairs with known answer, and tried on others: see
// docs/matching.md.
const (
	overlapMatched    = 0.03
	overlapConsistent = 0.40
	overlapCertainty  = 2.0
	unsureBelow       = 0.7
	unsureAbove       = 1.2
)

// JudgeOverlap applies the rule to sure matches a, b found from so many starting
// points of picture 1. certainty has one value a match, the geometric mean of the
// network's confidences in the two descriptors; nil leaves the third measure out.
// tolerance is that of Fundamental, in the matches' pixels.
func JudgeOverlap(a, b []Vec2, certainty []float64, seeds int, tolerance float64) (Overlap, error) {
	if seeds < 1 {
		return Overlap{}, fmt.Errorf("geometry: %d starting points, want 1 or more", seeds)
	}
	if certainty != nil && len(certainty) != len(a) {
		return Overlap{}, fmt.Errorf("geometry: %d certainties, want one for each of %d matches", len(certainty), len(a))
	}
	// Below the least share that matters the verdict is NO, whatever F is.
	f, in, _, err := fundamental(a, b, tolerance, unsureBelow*overlapConsistent)
	if err != nil {
		return Overlap{}, err
	}
	o := Overlap{Fundamental: f, Inliers: in, Matched: min(1, float64(len(a))/float64(seeds)), Certainty: math.NaN()}
	if len(a) > 0 {
		o.Consistent = float64(len(in)) / float64(len(a))
	}
	what := fmt.Sprintf("%d of %d starting points have a sure match (%.1f %%), %.0f %% of these fit one epipolar geometry",
		len(a), seeds, 100*o.Matched, 100*o.Consistent)
	matched, consistent, certain := o.Matched/overlapMatched, o.Consistent/overlapConsistent, math.Inf(1)
	if len(certainty) > 0 {
		sorted := slices.Sorted(slices.Values(certainty))
		o.Certainty = sorted[len(sorted)/2]
		if certain = o.Certainty / overlapCertainty; math.IsNaN(certain) {
			certain = 0
		}
		what += fmt.Sprintf(", their median certainty is %.2f", o.Certainty)
	}
	o.Score = min(matched, consistent, certain)
	switch {
	case o.Score >= unsureAbove:
		o.Verdict, o.Reason = OverlapYes, what
	case o.Score >= unsureBelow:
		o.Verdict, o.Reason = OverlapUnsure, what+": on the threshold"
	case o.Score == matched:
		o.Verdict, o.Reason = OverlapNo, what+": too few matches"
	case o.Score == consistent:
		o.Verdict, o.Reason = OverlapNo, what+": the matches disagree"
	default:
		o.Verdict, o.Reason = OverlapNo, what+": the network is not certain of the matches"
	}
	return o, nil
}
