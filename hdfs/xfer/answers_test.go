package xfer

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/accept"
)

// noted is a connection that notes what is written, a write each.
type noted struct {
	net.Conn
	writes [][]byte
}

func (n *noted) SetWriteDeadline(time.Time) error { return nil }
func (n *noted) SetReadDeadline(time.Time) error  { return nil }

func (n *noted) Write(b []byte) (int, error) {
	n.writes = append(n.writes, slices.Clone(b))
	return len(b), nil
}

// TestAnswersGoOutAtOnce: a packet that is answered while the next one is, too, is answered together with it; one that another has to wait for
// waits for nobody; none waits for the last, before which the replica is made final.
func TestAnswersGoOutAtOnce(t *testing.T) {
	part := func(seqnos ...int64) *bytes.Reader { // answers of the next node that come at once
		var b []byte
		for _, n := range seqnos {
			b, _ = appendMessage(b, &pb.PipelineAckProto{Seqno: &n, Reply: []pb.Status{pb.Status_SUCCESS}, DownstreamAckTimeNanos: proto.Uint64(0)})
		}
		return bytes.NewReader(b)
	}
	half := part(0, 1)
	for name, c := range map[string]struct {
		next io.Reader // nil: there is none
		want [][]int64
	}{
		"the last node":  {nil, [][]int64{{0, 1, 2}, {3}}},
		"one before it":  {io.MultiReader(part(0, 1), part(2), part(3)), [][]int64{{0, 1}, {2}, {3}}},
		"half of one":    {io.MultiReader(io.LimitReader(half, half.Size()-3), half, part(2), part(3)), [][]int64{{0}, {1}, {2}, {3}}},
		"nothing is due": {io.MultiReader(part(0), part(1), part(2), part(3)), [][]int64{{0}, {1}, {2}, {3}}},
	} {
		to := &noted{}
		w := &memoryWriter{m: newMemory(), r: &replica{}}
		w.r.writer = w
		n := &node{c: &conn{s: &Server{}, net: &accept.Member{Conn: to}}, w: w, acks: make(chan ack, 4)}
		if c.next != nil {
			n.next = &mirror{net: to, r: bufio.NewReader(c.next)}
		}
		for i := range int64(4) {
			n.acks <- ack{seqno: i, last: i == 3}
		}
		close(n.acks)
		if err := n.answer(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got [][]int64
		for _, b := range to.writes {
			var seqnos []int64
			for r := bufio.NewReader(bytes.NewReader(b)); ; {
				a, err := readAck(r)
				if err != nil {
					break
				}
				seqnos = append(seqnos, a.GetSeqno())
			}
			got = append(got, seqnos)
		}
		if !slices.EqualFunc(got, c.want, slices.Equal[[]int64]) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
