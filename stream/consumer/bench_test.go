package consumer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// sink is a command that reads its input and does nothing with it.
var sink = []string{"dd", "bs=128k", "of=/dev/null", "status=none"}

// Processor time per gigabyte of the runner alone, its command and the dealer
// left out: it should be that of write(2), which BenchmarkWrite measures.
func BenchmarkRun(b *testing.B) {
	const unit, count = 2 << 20, 512
	data := make([]byte, unit)
	units := make([]testUnit, count)
	for i := range units {
		units[i].data = data
	}
	var cpu int64
	b.SetBytes(unit * count)
	for b.Loop() {
		d := newDealer(b, units...)
		d.slot, d.window, d.delimiter = unit, 2, ""
		d.listen()
		usage := filepath.Join(b.TempDir(), "usage")
		args := []string{"--socket", d.path, "--stream", "s", "--consumer", "0", "--attempt", "1", "--"}
		cmd := exec.Command(os.Args[0], append(args, sink...)...)
		cmd.Env = append(runnerEnviron(), usageEnv+"="+usage)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(usage)
		must(b, err)
		n, err := strconv.ParseInt(string(text), 10, 64)
		must(b, err)
		cpu += n
		d.close()
	}
	b.ReportMetric(float64(cpu)/1e9/(float64(b.N)*unit*count/1e9), "cpu-s/GB")
}

// The same, written by nothing but write(2) that blocks, from as much shared
// memory as the dealer has, and filled by somebody else just before.
func BenchmarkWrite(b *testing.B) {
	const unit, count, slots = 2 << 20, 512, 64
	m, err := newMemory(1, unit, slots, false)
	must(b, err)
	defer m.close()
	fill := make([]byte, unit)
	filled, written := make(chan []byte, 2), make(chan bool, 2)
	var cpu int64
	b.SetBytes(unit * count)
	for b.Loop() {
		var p [2]int
		must(b, unix.Pipe2(p[:], unix.O_CLOEXEC))
		_, err := unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, pipeSize)
		must(b, err)
		in := os.NewFile(uintptr(p[0]), "pipe")
		cmd := exec.Command(sink[0], sink[1:]...)
		cmd.Stdin = in
		must(b, cmd.Start())
		in.Close()
		go func() {
			for i := range count {
				if i >= 2 {
					<-written
				}
				slot := m.mem[i%slots*unit:][:unit]
				copy(slot, fill)
				filled <- slot
			}
		}()
		done := make(chan int64)
		go func() {
			runtime.LockOSThread()
			var before, after unix.Rusage
			unix.Getrusage(unix.RUSAGE_THREAD, &before)
			for range count {
				for rest := <-filled; len(rest) > 0; {
					n, err := unix.Write(p[1], rest)
					if err != nil {
						b.Error(err)
						break
					}
					rest = rest[n:]
				}
				written <- true
			}
			<-written
			<-written
			unix.Getrusage(unix.RUSAGE_THREAD, &after)
			unix.Close(p[1])
			done <- after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		}()
		cpu += <-done
		must(b, cmd.Wait())
	}
	b.ReportMetric(float64(cpu)/1e9/(float64(b.N)*unit*count/1e9), "cpu-s/GB")
}

// Reading through the client inside of a process, with and without a copy.
func BenchmarkClient(b *testing.B) {
	const unit, count = 2 << 20, 64
	data := make([]byte, unit)
	units := make([]testUnit, count)
	for i := range units {
		units[i].data = data
	}
	for how, name := range map[int]string{0: "Use", 1: "Read"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(unit * count)
			buf := make([]byte, 64<<10)
			for b.Loop() {
				d := newDealer(b, units...)
				d.slot, d.window = unit, 2
				c := dial(b, d.listen(), Options{})
				for {
					u, err := c.Next(b.Context())
					if err != nil {
						break
					}
					if how == 0 {
						for err == nil {
							err = u.Use(func(p []byte) (int, error) { return len(p), nil })
						}
					} else {
						for err == nil {
							_, err = u.Read(buf)
						}
					}
					if err != nil && fmt.Sprint(err) != "EOF" {
						b.Fatal(err)
					}
				}
				must(b, c.Close())
				d.close()
			}
		})
	}
}
