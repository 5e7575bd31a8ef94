package swim

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the trace and its licence
)

// FacebookDayName is the name of the file that FacebookDay reads, in the SWIM
// repository.
const FacebookDayName = "FB-2009_samples_24_times_1hr_0.tsv"

//go:embed FB-2009_samples_24_times_1hr_0.tsv.gz
var facebookDay []byte

// License is the text that goes with FacebookDay, to be shown on request.
//
//go:embed LICENSE
var License string

// FacebookDay returns a day of Facebook's cluster of 600 machines in 2009, put
// together from 24 hours at random (Chen et al., "Interactive analytical
// processing in big data systems", 2012; the workloads of SWIM): 5894 jobs
// without paths. It may be used as often as one likes.
func FacebookDay() Jobs {
	return func(yield func(Job, error) bool) {
		r, err := gzip.NewReader(bytes.NewReader(facebookDay))
		if err != nil {
			yield(Job{}, err)
			return
		}
		Read(r)(yield)
	}
}
