package gateway

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
)

// BenchmarkNames has 64 callers, on 16 connections, do what headrace-lab bench dfs does with names, one kind after the other: as many
// of each, so -benchtime is to be a number, such as 20000x.
func BenchmarkNames(b *testing.B) {
	const callers, connections = 64, 16
	s := serve(b, b.TempDir())
	var clients []*client
	for range connections {
		clients = append(clients, s.as("root"))
	}
	dir := func(n int64) string { return fmt.Sprintf("/t%d/d%d", n%callers, n/callers) }
	call := func(c *client, method string, q, a proto.Message) error {
		return c.Call(context.Background(), method, q, a)
	}
	for _, kind := range []struct {
		name string
		do   func(c *client, dir string) error
	}{
		{"mkdir", func(c *client, dir string) error {
			return call(c, "mkdirs", &pb.MkdirsRequestProto{Src: &dir, Masked: permission(0o755), CreateParent: proto.Bool(true)}, &pb.MkdirsResponseProto{})
		}},
		{"create", func(c *client, dir string) error {
			path, r := dir+"/a", &pb.CreateResponseProto{}
			if err := call(c, "create", c.createRequest(path), r); err != nil {
				return err
			}
			return call(c, "complete", &pb.CompleteRequestProto{Src: &path, ClientName: &c.name, FileId: r.Fs.FileId}, &pb.CompleteResponseProto{})
		}},
		{"stat", func(c *client, dir string) error {
			path := dir + "/a"
			return call(c, "getFileInfo", &pb.GetFileInfoRequestProto{Src: &path}, &pb.GetFileInfoResponseProto{})
		}},
		{"open", func(c *client, dir string) error {
			return call(c, "getBlockLocations", c.locationsRequest(dir+"/a"), &pb.GetBlockLocationsResponseProto{})
		}},
		{"list", func(c *client, dir string) error {
			return call(c, "getListing", &pb.GetListingRequestProto{Src: &dir, StartAfter: []byte{}, NeedLocation: proto.Bool(false)}, &pb.GetListingResponseProto{})
		}},
		{"rename", func(c *client, dir string) error {
			from, to := dir+"/a", dir+"/b"
			return call(c, "rename", &pb.RenameRequestProto{Src: &from, Dst: &to}, &pb.RenameResponseProto{})
		}},
		{"delete", func(c *client, dir string) error {
			path := dir + "/b"
			return call(c, "delete", &pb.DeleteRequestProto{Src: &path, Recursive: proto.Bool(false)}, &pb.DeleteResponseProto{})
		}},
	} {
		var n atomic.Int64 // goes on in the next run: what was made is there, and what was deleted is not
		b.Run(kind.name, func(b *testing.B) {
			var caller atomic.Int64
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				c := clients[caller.Add(1)%connections]
				for p.Next() {
					if err := kind.do(c, dir(n.Add(1)-1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkBlock writes and reads a block of 128 MB.
func BenchmarkBlock(b *testing.B) {
	const size, packet = 128 << 20, 64 << 10
	s := serve(b, b.TempDir())
	c := s.as("root")
	data := random(packet)
	write := func(path string) {
		q := c.createRequest(path)
		q.BlockSize = proto.Uint64(size)
		id := ask[pb.CreateResponseProto](c, "create", q).GetFs().GetFileId()
		l := c.addBlock(path, id, nil)
		p, err := c.begin(l, nil)
		if err != nil {
			b.Fatal(err)
		}
		acked := make(chan error, 1)
		go func() {
			for range size/packet + 1 {
				if _, err := p.Ack(); err != nil {
					acked <- err
					return
				}
			}
			acked <- nil
		}()
		for at := int64(0); at < size; at += packet {
			if _, err := p.Send(at, data, false); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := p.Finish(size, false); err != nil {
			b.Fatal(err)
		}
		if err := <-acked; err != nil {
			b.Fatal(err)
		}
		l.B.NumBytes = proto.Uint64(size)
		c.complete(path, id, l.B)
	}
	n := 0
	b.Run("write", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			n++
			write(fmt.Sprintf("/f%d", n))
		}
	})
	l := c.locations("/f1").Blocks[0]
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := xfer.Read(c.connect(), xfer.Header(extended(l.B), c.name, l.BlockToken), 0, size)
			if err == nil {
				_, err = io.Copy(io.Discard, r)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
