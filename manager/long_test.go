package manager

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/manager/inputs"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// TestSlowFileSystem: what a file system is asked for may take longer than other requests, which would end the
// context of a request by the deadline of its connection.
func TestSlowFileSystem(t *testing.T) {
	testkit.Longer(t, 200*time.Millisecond, func(longest time.Duration) error { return slowFileSystem(t, longest) })
}

// slowFileSystem has other requests take so long at most.
func slowFileSystem(t *testing.T, longest time.Duration) error {
	hdfs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("op") {
		case "GETFILESTATUS":
			w.Write([]byte(`{"FileStatus":{"pathSuffix":"","permission":"644","type":"FILE","length":100}}`))
		case "GET_BLOCK_LOCATIONS":
			<-time.After(longest + longest/2)
			w.Write([]byte(`{"LocatedBlocks":{"fileLength":100,"isLastBlockComplete":true,"locatedBlocks":[
				{"block":{"blockPoolId":"p","blockId":1,"generationStamp":1,"numBytes":100},"startOffset":0,"locations":[{"hostName":"h"}]}]}}`))
		default:
			http.Error(w, "not here", http.StatusBadRequest)
		}
	}))
	defer hdfs.Close()
	s := start(t, func(c *Config) {
		c.timing.request = longest
		c.Inputs.FileSystems = []inputs.FileSystem{{NameNodes: []string{hdfs.URL}}}
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := wireconnect.NewInputServiceClient(tokenClient{&http.Client{Transport: transport}, testToken}, s.url())
	// A hold that a manager before this one was asked for.
	block := &wire.BlocksToKeep{Blocks: &wire.BlockList{Pool: "p", Numbers: []int64{1}}, Generations: []int64{1}, Bytes: []int64{100}, Places: []uint32{0}}
	hold := &wire.JobRef{User: "u", Job: "hold-1"}
	if _, err := client.Exchange(t.Context(), &wire.ExchangeRequest{Node: "n1", Session: 1, Full: true, Jobs: []*wire.JobFacts{{Job: hold, Hold: true}},
		Kept: []*wire.KeptBlocks{{Job: hold, State: wire.KeptState_KEPT_STATE_PINNED, Blocks: block}}}); err != nil {
		return err
	}
	cooled, err := client.Cool(t.Context(), &wire.CoolInputsRequest{User: "u", Paths: []string{"hdfs://c/a"}})
	if err != nil || cooled.Ended != 1 || cooled.Released != 100 {
		return fmt.Errorf("cool: %v, %w", cooled, err)
	}
	st, err := client.Warm(t.Context(), &wire.WarmInputsRequest{User: "u", Job: "j", Paths: []string{"hdfs://c/a"}})
	if err != nil || st.Bytes != 100 {
		return fmt.Errorf("warm: %v, %w", st, err)
	}
	stream, err := client.CachedInputs(t.Context(), &wire.CachedInputsRequest{User: "u", Paths: []string{"hdfs://c/a"}})
	if err != nil {
		return err
	}
	defer stream.Close()
	files := 0
	for stream.Receive() {
		files += len(stream.Msg().Files)
	}
	if files != 1 || stream.Err() != nil {
		return fmt.Errorf("cache: %d files, %w", files, stream.Err())
	}
	return nil
}
