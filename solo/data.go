package solo

import (
	"os"

	"headrace/wire/wireconnect"
)

// dataService answers requests about files. It needs nothing from the loop.
type dataService struct {
	wireconnect.UnimplementedDataServiceHandler
	*reading
	searches searches
}

var _ wireconnect.DataServiceHandler = (*dataService)(nil)

func newDataService(r *reading) *dataService { return &dataService{reading: r} }

// pinsFor tells what of an open file is kept in memory, and by whose requests.
func (s *dataService) pinsFor(by caller) func(f *os.File) (bytes int64, by []string) {
	return func(*os.File) (int64, []string) { return 0, nil }
}
