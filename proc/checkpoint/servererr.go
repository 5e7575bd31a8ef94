package checkpoint

// ServerErr waits for the page server to end, after a criu dump that failed,
// and tells what stopped it: for example that the device is full, which criu
// sees only as a broken connection. Nil means that the cause lies with criu.
func (w *Writer) ServerErr() error {
	w.client.Close()
	<-w.served
	return w.err
}
