package solo

import (
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// dataService answers requests about files. It needs nothing from the loop.
type dataService struct {
	*reading
	// warming is nil where nothing is kept in memory.
	warming *warming
}

var _ wireconnect.DataServiceHandler = (*dataService)(nil)

// readingInfo tells how the machine reads.
func (s *service) readingInfo(info *wire.NodeInfo) {
	method, why := s.data.cache.Method()
	info.Residency, info.ResidencyWhy = string(method), why
	info.Pinned = s.data.cache.Pinned()
	if s.data.warming != nil {
		info.WarmBudget = s.data.cache.Budget()
	}
	for _, st := range s.loop.streams.List() {
		if st.Error == "" && st.Committed < st.Units {
			info.Streams++
		}
	}
}
