package hostile

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headrace/wire"
)

// everyRequest tries every field of every request with everything that fits.
func (a *attacker) everyRequest() {
	services := wire.File_headrace_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			base, ok := requests[m.FullName()]
			if !ok {
				a.fault("there is no attack on %s: say in requests what a request of it looks like", m.FullName())
				continue
			}
			right, err := proto.Marshal(base(a))
			if err != nil {
				a.fault("%s: %v", m.FullName(), err)
				continue
			}
			if services.Get(i).Name() == "ManagerService" {
				a.manager(m, right)
				continue
			}
			a.foreign(m)
			a.call(m, right)
			wrong := a.mutations(m.Input(), 3)
			a.sideBySide(len(wrong), func(i int) { a.call(m, append(slices.Clone(right), wrong[i]...)) })
			for _, junk := range [][]byte{{}, {0xff}, []byte("{}"), make([]byte, 1000), []byte(strings.Repeat("\x0a\x02", 1000))} {
				a.call(m, junk)
			}
		}
	}
	// Larger than any request may be.
	a.call(method("headrace.v1.TaskService.Get"), protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strings.Repeat("x", 20<<20)))
}

// mutations are encoded fields of a message, one at a time, with hostile values.
// Appended to an encoded message they count before what is there, or are added to it.
func (a *attacker) mutations(m protoreflect.MessageDescriptor, depth int) [][]byte {
	var all [][]byte
	fields := m.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		n := f.Number()
		add := func(t protowire.Type, value []byte) {
			all = append(all, append(protowire.AppendTag(nil, n, t), value...))
		}
		switch f.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
			for _, s := range a.texts(f.Name()) {
				add(protowire.BytesType, protowire.AppendString(nil, s))
			}
			if f.IsList() {
				add(protowire.BytesType, nil)
				many := []byte{}
				for k := range 5000 {
					many = protowire.AppendTag(many, n, protowire.BytesType)
					many = protowire.AppendString(many, fmt.Sprint(k))
				}
				all = append(all, many)
			}
		case protoreflect.DoubleKind:
			for _, v := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1e308, 5e-324, math.Copysign(0, -1)} {
				add(protowire.Fixed64Type, protowire.AppendFixed64(nil, math.Float64bits(v)))
			}
		case protoreflect.MessageKind:
			if depth > 0 {
				for _, inner := range a.mutations(f.Message(), depth-1) {
					add(protowire.BytesType, protowire.AppendBytes(nil, inner))
				}
			}
		default: // numbers and enumerations
			for _, v := range []uint64{1, 7, 12, 255, 1 << 20, math.MaxInt32, math.MaxUint32, math.MaxInt64, 1 << 63, math.MaxUint64} {
				add(protowire.VarintType, protowire.AppendVarint(nil, v))
			}
		}
	}
	return all
}

// texts are hostile values of a field of that name.
func (a *attacker) texts(name protoreflect.Name) []string {
	texts := []string{
		"", "\x00", "a\nb", "\x1b[2J\x1b]0;x\a", "\xff\xfe", "\u202e\u2066", "../../../etc/shadow", "-1", "%s%n", "*", "$(id)", "{}",
		strings.Repeat("x", 5000), strings.Repeat("x", 300_000), strings.Repeat("../", 2000), "root", "0",
	}
	switch name {
	case "cwd", "output", "stdin", "paths":
		texts = append(texts, a.paths()...)
	case "id", "ids", "job", "application", "store":
		texts = append(texts, a.Tasks...)
		texts = append(texts, a.Warms...)
		texts = append(texts, a.Streams...)
	}
	return texts
}

// foreign asks about what belongs to others, which must be answered as what does
// not exist is.
func (a *attacker) foreign(m protoreflect.MethodDescriptor) {
	id := m.Input().Fields().ByName("id")
	if id == nil {
		if id = m.Input().Fields().ByName("ids"); id == nil {
			return
		}
	}
	ask := func(s string) string {
		ans := a.call(m, protowire.AppendString(protowire.AppendTag(nil, id.Number(), protowire.BytesType), s))
		return ans.code + " " + strings.ReplaceAll(ans.text, s, "ID")
	}
	for _, ids := range [][]string{a.Tasks, a.Warms, a.Streams} {
		for _, s := range ids {
			absent := s[:1] + "999999"
			if got, want := ask(s), ask(absent); got != want {
				a.fault("%s: somebody else's %s is answered %q, what does not exist %q", m.FullName(), s, got, want)
			}
		}
	}
}

// paths lead to what belongs to others, or are none that should be opened.
func (a *attacker) paths() []string {
	h := func(name string) string { return filepath.Join(a.Home, name) }
	paths := []string{
		h("mine"), h("link"), h("dirlink"), h("dirlink/secret.txt"), h("a/b/dirlink/secret.txt"), h("a/b/dirlink/d/f"), h("a/b/dirlink/*"),
		h("fd"), h("fd/*"), h("rootlink") + filepath.Join(a.Dirs[0], "secret.txt"), h("fifo"), h("socket"), h("loop"), h("dangling"),
		h("new\nline"), h("bytes\xff"), h("a"), h("full"), h("mine/x"), h("../victim/secret.txt"),
		"/proc/self/environ", "/proc/self/mem", "/proc/self/maps", "/proc/self/fd", "/proc/self/fd/*", "/proc/self/cwd", "/proc/self/root",
		"/proc/thread-self/fd/*", "/proc/self/task/*/fd/*", "/proc/kcore", "/proc/kmsg", "/proc/1/root" + a.Files[0], "/dev/fd/*", "/dev/stdin",
		"/dev/zero", "/dev/tty", "/dev/mem", "/dev/null", "/sys/kernel/debug", "/sys/kernel/security", a.Socket,
		filepath.Join(a.StateDir, "tasks/*/*"), filepath.Join(a.StateDir, "lock"),
	}
	for n := range 40 {
		paths = append(paths, fmt.Sprintf("/proc/self/fd/%d", n))
	}
	for _, pid := range append([]int{a.DaemonPID}, a.PIDs...) {
		for _, what := range []string{"fd/*", "cwd", "cwd/secret.txt", "root" + a.Files[0], "environ", "map_files/*", "mem"} {
			paths = append(paths, fmt.Sprintf("/proc/%d/%s", pid, what))
		}
	}
	for _, dir := range a.Dirs {
		paths = append(paths, dir, dir+"/*", dir+"/hidden-*")
	}
	return append(paths, a.Files...)
}
