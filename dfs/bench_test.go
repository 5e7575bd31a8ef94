package dfs

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"headrace/meta"
)

// BenchmarkNames makes directories and asks for them, by 64 callers at the node that leads, of one and of three that are in one
// process and have one disk.
func BenchmarkNames(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		dirs := b.TempDir()
		s := newSites(b)
		first := s.start(filepath.Join(dirs, "0"), nil)
		for i := range nodes - 1 {
			s.start(filepath.Join(dirs, fmt.Sprint(i+1)), s.admit)
		}
		var names []string
		for name := range s.all {
			names = append(names, name)
		}
		s.seated(names...)
		var n atomic.Int64
		run := func(what string, do func(*Node) error) {
			b.Run(fmt.Sprintf("%d/%s", nodes, what), func(b *testing.B) {
				b.SetParallelism(32) // times two processors
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if err := do(first.node); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
		run("mkdirs", func(node *Node) error {
			_, err := node.Propose(context.Background(), meta.Command{Caller: node.root(), Op: &meta.Mkdirs{Path: fmt.Sprintf("/d%d/%d", n.Add(1)%100, n.Load()), Parents: true, Mode: 0o755}})
			return err
		})
		run("stat", func(node *Node) error {
			return node.Query(node.root(), func(q meta.Query) error {
				_, err := q.Stat(fmt.Sprintf("/d%d/%d", n.Add(1)%100, n.Load()), false)
				return err
			})
		})
	}
}
