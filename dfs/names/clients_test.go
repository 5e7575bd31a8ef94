package names

import (
	"fmt"
	"strings"

	"headrace/meta"
)

// op is one call of a client, which asks again until it is answered.
type op struct {
	data        []byte // a question if there is none
	command     meta.Command
	client      string
	number      int
	name        string // in the directory
	kind        string
	call, end   int64
	answer      string
	index       uint64 // of the state that was asked
	asks        bool   // somebody has been asked
	asked, life int
	of          *process
	tries       int
}

// person is who calls.
var person = meta.Caller{User: "root", Super: true}

// call lets a client go on: it asks somebody, and asks again when it waits too long.
func (w *world) call(i int) {
	o := w.clients[i]
	if o == nil {
		o = w.think(i)
		w.clients[i] = o
		w.ops = append(w.ops, o)
	}
	if o.asks && o.of.life == o.life && w.now-o.asked < 60 {
		return
	}
	p := w.leading()
	if p.node == nil {
		return
	}
	o.asks, o.asked, o.of, o.life = true, w.now, p, p.life
	o.tries++
	ended := func(answer string, index uint64) {
		if w.clients[i] == o {
			w.clients[i] = nil
			w.clock++
			o.answer, o.index, o.end = answer, index, w.clock
			if o.tries > 1 {
				w.counts["answered when asked again"]++
			}
		}
	}
	try := o.tries
	w.do(p, func() {
		if o.data == nil {
			question := func(err error) {
				if o.tries != try {
					return // a question that was given up
				}
				if o.asks = false; err != nil {
					return
				}
				r, index, done, err := p.machine.read()
				if err != nil {
					w.failf("%s: %v", p.name, err)
				}
				defer done()
				if o.kind == "look" {
					ended(textOf(r), index)
				} else {
					ended(list(r), index)
				}
			}
			if p.alone && p.known.Leads() {
				w.counts["asked of one that is alone"]++
				question(nil)
			} else if w.fault.readsAlone && w.leads(p) {
				question(nil)
			} else {
				p.node.Read(group, question)
			}
			return
		}
		data := o.data
		if !w.fault.writesNewest {
			var err error
			if data, err = encodeMeta(o.command, p.known.View().Version); err != nil {
				w.failf("%T: %v", o.command.Op, err)
			}
		}
		p.node.Propose(group, data, func(b []byte, err error) {
			if err == nil {
				ended(string(b), 0)
			} else if o.tries == try {
				o.asks = false
			}
		})
	})
}

// list is what is in the directory.
func list(r meta.Reader) (all string) {
	q := meta.Query{Reader: r, Caller: person}
	page, err := q.List(simDir, "", false)
	if err != nil {
		panic(err)
	}
	for _, s := range page.Entries {
		all += s.Name + " "
	}
	return all
}

// think of something to ask.
func (w *world) think(client int) *op {
	w.clock++
	o := &op{client: fmt.Sprintf("c%d", client), number: len(w.ops), call: w.clock, name: string(rune('a' + w.rand.IntN(3)))}
	m := meta.Command{Time: int64(w.now) * simTick, Client: o.client, Call: int64(o.number), Caller: person}
	if w.rand.IntN(2) == 0 {
		if w.draw(o, &m); m.Op == nil {
			o.kind = "look"
			return o
		}
		o.kind = strings.TrimPrefix(fmt.Sprintf("%T", m.Op), "*meta.")
		o.command, o.data = m, newestMeta(m)
		return o
	}
	switch o.kind = []string{"mkdir", "delete", "list", "rename"}[w.rand.IntN(4)]; o.kind {
	case "mkdir":
		m.Op = &meta.Mkdirs{Path: simDir + "/" + o.name, Mode: 0o755}
	case "delete":
		m.Op = &meta.Delete{Path: simDir + "/" + o.name, Recursive: true}
	case "rename":
		m.Op = &meta.Rename{From: simDir + "/" + o.name, To: fmt.Sprintf("%s/r%d", simDir, o.number%7), Old: true}
	default:
		return o
	}
	o.command, o.data = m, newestMeta(m)
	return o
}

// knowing is who draws a command by what somebody knows of the names, which may be old.
type knowing struct {
	*world
	meta.Query
	client string
	open   []meta.OpenFile
	blocks []meta.Placed // that are not finished
}

// draw makes a command about what is in treeDir, or none: a look at all of it.
func (w *world) draw(o *op, m *meta.Command) {
	var some []*process
	for _, p := range w.processes {
		if p.node != nil && p.machine.agreed() != nil {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return
	}
	r, _, done, err := some[w.rand.IntN(len(some))].machine.read()
	if err != nil {
		return
	}
	defer done()
	k := &knowing{world: w, Query: meta.Query{Reader: r, Caller: person, Time: int64(w.now) * simTick}, client: o.client}
	k.open, _, _ = k.OpenFiles(0, treeDir)
	k.blocks = k.Unfinished()
	if k.SafeMode() && w.rand.IntN(4) == 0 {
		m.Op = &meta.SetSafeMode{On: false}
		return
	}
	all := 0
	for _, d := range draws {
		all += d.weight
	}
	at := w.rand.IntN(all)
	for _, d := range draws {
		if at -= d.weight; at < 0 {
			m.Op = d.draw(k)
			break
		}
	}
	switch m.Op.(type) {
	case *meta.Delete, *meta.Rename, *meta.SetQuota: // with what was seen of late
		for _, y := range w.surveys[max(0, len(w.surveys)-10):] {
			if seen, _ := k.Survey(y); seen != nil && y.Path == m.Survey(0).Path {
				m.Seen = seen
				w.counts["seen"]++
			}
		}
	}
}

func (k *knowing) of(choices ...string) string { return choices[k.rand.IntN(len(choices))] }

func (k *knowing) dir() string { return treeDir + k.of("/a", "/a", "/b", "/a/c", "/b/a") }

func (k *knowing) file() string { return treeDir + k.of("", "/a", "/a", "/b") + k.of("/f", "/g") }

func (k *knowing) path() string {
	if k.rand.IntN(2) == 0 {
		return k.dir()
	}
	return k.file()
}

// written is a file that somebody writes, with its last block; most of the time who writes it asks.
func (k *knowing) written() (f meta.OpenFile, last *meta.Block) {
	if len(k.open) == 0 {
		return meta.OpenFile{Path: k.file(), ID: 1, Holder: k.client}, nil
	}
	f = k.open[k.rand.IntN(len(k.open))]
	if s, err := k.Stat(f.Path, true); err == nil && s != nil && s.Located != nil && s.Located.Last != nil {
		b := s.Located.Last.Block
		if last = &b; !s.Located.LastComplete && b.Size < simBlock {
			b.Size += k.rand.Int64N(simBlock - b.Size + 1)
		}
	}
	if k.rand.IntN(12) == 0 {
		f.Holder = "another"
	}
	return f, last
}

// block is one that is written or recovered, or none that there is.
func (k *knowing) block() (b meta.Block, holder string) {
	if len(k.blocks) == 0 {
		return meta.Block{ID: 1, Stamp: 1}, k.client
	}
	p := k.blocks[k.rand.IntN(len(k.blocks))]
	for _, f := range k.open {
		if f.ID == p.File {
			holder = f.Holder
		}
	}
	return p.Block, holder
}

func (k *knowing) quota(of ...int64) int64 { return of[k.rand.IntN(len(of))] }

var somewhere = []string{"n0"}

// draws are all commands that there are, with how often they come.
var draws = []struct {
	weight int
	draw   func(k *knowing) meta.Op
}{
	{6, func(k *knowing) meta.Op { return nil }},
	{4, func(k *knowing) meta.Op { return &meta.Mkdirs{Path: k.dir(), Mode: 0o755, Parents: true} }},
	{10, func(k *knowing) meta.Op {
		return &meta.Create{Path: k.file(), Mode: 0o644, Holder: k.client, Machine: "m", Flags: uint32(meta.FlagCreate + k.rand.IntN(5)/4*meta.FlagOverwrite), Parents: true,
			Replication: uint16(1 + k.rand.IntN(3)), BlockSize: simBlock}
	}},
	{14, func(k *knowing) meta.Op {
		f, last := k.written()
		return &meta.AddBlock{Path: f.Path, ID: f.ID, Holder: f.Holder, Previous: last, Copies: uint16(min(1, k.rand.IntN(8))), Nodes: somewhere}
	}},
	{14, func(k *knowing) meta.Op {
		f, last := k.written()
		return &meta.Complete{Path: f.Path, ID: f.ID, Holder: f.Holder, Last: last, Copies: uint16(min(1, k.rand.IntN(8)))}
	}},
	{5, func(k *knowing) meta.Op {
		o := &meta.Append{Path: k.file(), Holder: k.client, Machine: "m", NewBlock: k.rand.IntN(4) == 0, Nodes: somewhere, Room: simBlock}
		if b := k.LastBlock(o.Path); b != nil {
			o.Block, o.Stamp = b.ID, b.Stamp
		}
		if k.rand.IntN(6) == 0 {
			o.Room = simBlock / 2
		}
		return o
	}},
	{8, func(k *knowing) meta.Op {
		o := &meta.Truncate{Path: k.file(), Holder: k.client, Machine: "m", Nodes: somewhere}
		if s, err := k.Stat(o.Path, false); err == nil && s != nil {
			o.Size = max(0, k.rand.Int64N(s.Size+10)-8)
		}
		if b := k.BlockAt(o.Path, o.Size); b != nil {
			o.Block = b.ID
		}
		return o
	}},
	{6, func(k *knowing) meta.Op {
		return &meta.SetQuota{Path: k.of(treeDir, k.dir()), Names: k.quota(meta.ClearQuota, meta.ClearQuota, meta.KeepQuota, 3, 5, 8), Space: k.quota(meta.ClearQuota, meta.ClearQuota, meta.KeepQuota, 300, 700, 1500)}
	}},
	{8, func(k *knowing) meta.Op {
		all := k.Recoveries()
		if len(all) == 0 {
			return &meta.CommitRecovery{Block: 1, Stamp: 1, Size: 1, Close: true, Nodes: somewhere}
		}
		r := all[k.rand.IntN(len(all))]
		o := &meta.CommitRecovery{Block: r.Block.ID, Stamp: r.Stamp, Size: r.Cut, Close: true, Nodes: somewhere}
		if r.Cut == 0 || k.rand.IntN(8) == 0 {
			o.Size = k.rand.Int64N(simBlock)
		}
		o.Delete = o.Size == 0
		return o
	}},
	{2, func(k *knowing) meta.Op { return &meta.Delete{Path: k.path(), Recursive: k.rand.IntN(3) > 0} }},
	{6, func(k *knowing) meta.Op {
		o := &meta.Rename{From: k.file(), To: k.file(), Old: k.rand.IntN(2) == 0, Overwrite: k.rand.IntN(2) == 0}
		if k.rand.IntN(2) == 0 {
			o.From, o.To = k.dir(), k.dir()
		}
		return o
	}},
	{5, func(k *knowing) meta.Op {
		dir := treeDir + k.of("", "/a", "/b")
		for _, d := range []string{"/a", "/b", ""} { // where it may be done
			if f, err := k.Stat(treeDir+d+"/g", false); err == nil && f != nil && f.Size > 0 && k.rand.IntN(3) > 0 {
				dir = treeDir + d
			}
		}
		o := &meta.Concat{Target: dir + "/f", Sources: []string{dir + "/g"}}
		if k.rand.IntN(4) == 0 {
			o.Sources = append(o.Sources, k.file())
		}
		return o
	}},
	{1, func(k *knowing) meta.Op {
		f, last := k.written()
		if last == nil {
			last = &meta.Block{ID: 1}
		}
		return &meta.AbandonBlock{Path: f.Path, ID: f.ID, Holder: f.Holder, Block: *last}
	}},
	{2, func(k *knowing) meta.Op {
		b, holder := k.block()
		return &meta.NewStamp{Block: b, Holder: holder}
	}},
	{3, func(k *knowing) meta.Op {
		b, holder := k.block()
		next := b
		next.Stamp, next.Size = b.Stamp+k.rand.Uint64N(3), min(simBlock, b.Size+k.rand.Int64N(20))
		return &meta.UpdatePipeline{Holder: holder, Old: b, New: next, Nodes: somewhere}
	}},
	{2, func(k *knowing) meta.Op {
		f, last := k.written()
		if last == nil {
			last = &meta.Block{}
		}
		return &meta.Fsync{Path: f.Path, ID: f.ID, Holder: f.Holder, Size: last.Size}
	}},
	{2, func(k *knowing) meta.Op { return &meta.RenewLease{Holder: k.client} }},
	{3, func(k *knowing) meta.Op { return &meta.RecoverLease{Path: k.file(), Holder: k.client} }},
	{1, func(k *knowing) meta.Op { return &meta.ExpireLeases{Most: 1000} }},
	{1, func(k *knowing) meta.Op { return &meta.RenewLeases{} }},
	{1, func(k *knowing) meta.Op { return &meta.SetSafeMode{On: k.rand.IntN(2) == 0} }},
	{1, func(k *knowing) meta.Op {
		return &meta.SetPermission{Path: k.path(), Mode: uint16(0o700 + k.rand.IntN(8)*8)}
	}},
	{1, func(k *knowing) meta.Op { return &meta.SetOwner{Path: k.path(), Owner: k.of("alice", "bob")} }},
	{1, func(k *knowing) meta.Op {
		return &meta.SetTimes{Path: k.path(), Modified: -1, Accessed: k.rand.Int64N(100)}
	}},
	{4, func(k *knowing) meta.Op {
		return &meta.SetReplication{Path: k.file(), Copies: uint16(1 + k.rand.IntN(3))}
	}},
	{4, func(k *knowing) meta.Op {
		return &meta.SetXAttr{Path: k.path(), XAttr: meta.XAttr{Name: k.of("x", "y"), Value: []byte(k.of("1", "2"))}, Flags: meta.XAttrCreate | meta.XAttrReplace}
	}},
	{4, func(k *knowing) meta.Op {
		return &meta.RemoveXAttr{Path: k.dir(), XAttr: meta.XAttr{Name: k.of("x", "y")}}
	}},
	{2, func(k *knowing) meta.Op {
		if k.rand.IntN(3) == 0 {
			return &meta.ChangeACL{Path: k.path(), How: meta.RemoveACL}
		}
		return &meta.ChangeACL{Path: k.path(), How: meta.ModifyACL, Entries: []meta.ACLEntry{{Type: meta.User, Name: "bob", Access: meta.Access(k.rand.IntN(8))}}}
	}},
	{4, func(k *knowing) meta.Op {
		y := &meta.Survey{Path: k.of(treeDir, k.dir()), Number: uint64(len(k.ops) + 1)}
		k.surveys = append(k.surveys, y)
		return y
	}},
	{2, func(k *knowing) meta.Op {
		return &meta.ChangeCachePool{Add: k.rand.IntN(3) > 0, Name: k.of("p", "q"), Group: new("g"), Replication: new(k.rand.Int64N(4) - 1)}
	}},
	{1, func(k *knowing) meta.Op { return &meta.RemoveCachePool{Name: k.of("p", "q")} }},
	{4, func(k *knowing) meta.Op {
		o := &meta.ChangeCacheDirective{Path: new(k.file()), Pool: new(k.of("p", "q"))}
		if k.rand.IntN(3) == 0 {
			o.ID, o.Expiry = new(k.rand.Int64N(8)), &meta.CacheExpiry{Millis: 1000, Relative: true}
		}
		return o
	}},
	{2, func(k *knowing) meta.Op {
		o := &meta.RemoveCacheDirective{ID: k.rand.Int64N(8)}
		if there, _, err := k.CacheDirectives(0, meta.CacheFilter{}); err == nil && len(there) > 0 && k.rand.IntN(4) > 0 {
			o.ID = there[k.rand.IntN(len(there))].ID
		}
		return o
	}},
	{2, func(k *knowing) meta.Op { return &meta.Sweep{Most: 1 + k.rand.IntN(4)} }},
	{1, func(k *knowing) meta.Op {
		o := &meta.Collected{}
		for _, g := range k.Garbage(0, 3) {
			o.Numbers = append(o.Numbers, g.Number)
		}
		return o
	}},
	{1, func(k *knowing) meta.Op {
		o := &meta.Relocate{}
		blocks, _ := k.Unsettled(0, 100, 3)
		for _, b := range blocks {
			o.Blocks = append(o.Blocks, meta.Relocation{Block: b.ID, Stamp: b.Stamp, Nodes: somewhere[:k.rand.IntN(2)]})
		}
		return o
	}},
}
