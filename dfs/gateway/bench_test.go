package gateway

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
)

// BenchmarkNames makes directories, and asks for them, by 64 connections.
func BenchmarkNames(b *testing.B) {
	s := serve(b, b.TempDir())
	var n atomic.Int64
	for name, do := range map[string]func(*client) error{
		"mkdirs": func(c *client) error {
			path := fmt.Sprintf("/d%d/%d", n.Add(1)%100, n.Load())
			return c.Call(context.Background(), "mkdirs", &pb.MkdirsRequestProto{Src: &path, Masked: permission(0o755), CreateParent: proto.Bool(true)}, &pb.MkdirsResponseProto{})
		},
		"getFileInfo": func(c *client) error {
			path := fmt.Sprintf("/d%d/%d", n.Add(1)%100, n.Load())
			return c.Call(context.Background(), "getFileInfo", &pb.GetFileInfoRequestProto{Src: &path}, &pb.GetFileInfoResponseProto{})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(32) // times two processors
			b.RunParallel(func(p *testing.PB) {
				c := s.as("root")
				for p.Next() {
					if err := do(c); err != nil {
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
