// SPDX-License-Identifier: Apache-2.0

package geometry

import (
	"context"
	"math"
	"math/rand/v2"
)

const (
	ransacMost = 2000  // hypotheses at most
	ransacMiss = 1e-4  // accepted chance that no hypothesis was free of outliers
	ransacJury = 4096  // data that vote on a hypothesis; all of them vote in the end
	ransacSeed = 20241 // any number: what counts is that it never changes

	ransacPanel = 64   // votes after which a model may be found of no interest
	ransacEarly = 500  // hypotheses after which a search is given up
	ransacHope  = 0.75 // whose best has less than this part of the least share
)

// few is how many of a panel agree, at least, with a model of the given share: in all
// but one case of 10,000.
func few(share float64) int {
	mean := ransacPanel * share
	return int(math.Ceil(mean - 3.7*math.Sqrt(mean*(1-share))))
}

// ransac finds the model of type M that most of n data agree with. solve makes
// models from size data, cost is the squared residual of one datum, and data
// below limit agree. Models are ranked by the sum of costs, each capped at
// limit, which prefers the tighter of two with as many inliers. The indices of
// the inliers are nil when no model was found, or ctx ended.
//
// Models with less than the share least of the data are of no interest: most are told by
// the first votes (Matas and Chum 2004, Randomized RANSAC with T(d,d) test), which is
// nearly all of the work on data that agree on nothing, and a search that has found nothing
// near that share in its first quarter is given up. If there is no other, the best of these
// is found.
func ransac[M any](ctx context.Context, n, size int, limit, least float64, solve func(pick []int) []M, cost func(m M, i int) float64) (best M, inliers []int) {
	if n < size {
		return best, nil
	}
	// A fixed seed: the same matches must give the same pose, on every machine.
	rnd := rand.New(rand.NewPCG(ransacSeed, 0))
	// A random jury: every n-th datum would be blind to what repeats along the
	// rows of a picture.
	jury := rnd.Perm(n)[:min(n, ransacJury)]
	score, found := math.Inf(1), false
	last, enough := math.Inf(1), few(least)
	share := 0.0 // of the best model
	pick := make([]int, size)
	for iter, most := 0, ransacMost; iter < most; iter++ {
		if ctx.Err() != nil {
			return best, nil
		}
		if iter == ransacEarly && share < ransacHope*least {
			break
		}
		sample(rnd, pick, n)
		for _, m := range solve(pick) {
			total, agree := 0.0, 0
			for v, i := range jury {
				if v == ransacPanel && agree < enough {
					if !found && total < last {
						last, best = total, m
					}
					total = math.Inf(1)
					break
				}
				if c := cost(m, i); c < limit {
					total += c
					agree++
				} else { // NaN too
					total += limit
				}
				if total >= score { // most hypotheses are hopeless after a few votes
					break
				}
			}
			if total >= score {
				continue
			}
			score, best, found = total, m, true
			share = float64(agree) / float64(len(jury))
			most = min(most, trials(share, size))
		}
	}
	if !found && math.IsInf(last, 1) {
		return best, nil
	}
	return best, agreeing(n, limit, func(i int) float64 { return cost(best, i) })
}

// trials is how many samples of size data make one without outliers all but
// certain, when the given share of the data are inliers.
func trials(share float64, size int) int {
	pure := math.Pow(share, float64(size))
	if pure >= 1-ransacMiss {
		return 1
	}
	return int(min(math.Ceil(math.Log(ransacMiss)/math.Log1p(-pure)), ransacMost))
}

// sample draws distinct indices below n.
func sample(rnd *rand.Rand, pick []int, n int) {
	for i := 0; i < len(pick); {
		pick[i] = rnd.IntN(n)
		fresh := true
		for _, p := range pick[:i] {
			fresh = fresh && p != pick[i]
		}
		if fresh {
			i++
		}
	}
}

// agreeing lists the data whose cost is below limit.
func agreeing(n int, limit float64, cost func(i int) float64) []int {
	list := []int{}
	for i := range n {
		if cost(i) < limit {
			list = append(list, i)
		}
	}
	return list
}
