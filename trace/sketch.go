package trace

import "math"

// Distribution is what is known of many values.
type Distribution struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean"`
	// P50, P90 and P99 are quantiles, within 2 %. Max is exact.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// sketch counts values in bins whose bounds grow by a constant factor, so that
// quantiles have a bounded relative error in a fixed space (the idea of Masson, Rim
// and Lee, "DDSketch", 2019). Values are 0 or more.
type sketch struct {
	n, zeros int64
	sum, max float64
	bins     [sketchBins]sketchBin
}

type sketchBin struct {
	n   int64
	sum float64
}

const (
	// sketchGrowth is the factor from one bin to the next: the mean of a bin is within
	// 2 % of all that is in it, and exact when all are equal.
	sketchGrowth = 1.02
	// sketchLeast is the first bin's lower bound; what is less counts as 0. The last
	// bin reaches 1e19 and takes what is more.
	sketchLeast = 1e-9
	sketchBins  = 3257
)

var (
	sketchScale = 1 / math.Log(sketchGrowth)
	sketchFirst = math.Log(sketchLeast)
)

func (s *sketch) add(v float64) {
	s.n++
	s.sum += v
	s.max = max(s.max, v)
	if v < sketchLeast {
		s.zeros++
		return
	}
	b := &s.bins[max(0, min(int((math.Log(v)-sketchFirst)*sketchScale), sketchBins-1))]
	b.n++
	b.sum += v
}

// quantile returns the value that the share q of them does not exceed.
func (s *sketch) quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(s.n)))
	seen := s.zeros
	if rank <= seen {
		return 0
	}
	for i := range s.bins {
		b := &s.bins[i]
		if seen += b.n; seen >= rank {
			return b.sum / float64(b.n)
		}
	}
	return s.max
}

func (s *sketch) distribution() Distribution {
	if s.n == 0 {
		return Distribution{}
	}
	return Distribution{N: s.n, Mean: s.sum / float64(s.n), P50: s.quantile(0.5), P90: s.quantile(0.9), P99: s.quantile(0.99), Max: s.max}
}
