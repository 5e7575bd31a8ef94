package checkpoint

import "errors"

// ServerErr waits for the page server to end, after a criu dump that failed,
// and tells what stopped it: for example that the device is full, which criu
// sees only as a broken connection. Nil means that the cause lies with criu,
// also when criu ended without closing the dump. Call it when criu has ended;
// then only Abort is left to do.
func (w *Writer) ServerErr() error {
	w.closeClient()
	<-w.served
	if errors.Is(w.err, errNoClose) {
		return nil
	}
	return w.err
}
