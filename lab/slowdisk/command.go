package slowdisk

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Command is the first argument with which Start runs its program; the program
// gives the others to Main.
const Command = "slow-disk"

// greeting is the line that the server writes once it is mounted.
type greeting struct {
	Disk  string `json:"disk"`
	Mount string `json:"mount"`
}

// Main serves a modelled disk in this process until ctx ends or somebody unmounts
// it: args are flags, the directory below and the place to mount it. When it is
// mounted it writes a line of JSON to out. It needs root and /dev/fuse.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	err := serve(ctx, args, in, out)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%s: %w", Command, err)
	}
	return err
}

func serve(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	m := HardDisk()
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	m.define(flags)
	stats := flags.String("stats", "", "a `FILE` that shows what the head has done")
	parent := flags.Bool("until-eof", false, "end with standard input")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(out, "usage: %s [flags] DIRECTORY MOUNT\n", Command)
			flags.SetOutput(out)
			flags.PrintDefaults()
		}
		return err
	}
	if flags.NArg() != 2 {
		return fmt.Errorf("want a directory and a place to mount it, got %q", flags.Args())
	}
	if err := m.check(); err != nil {
		return err
	}
	source, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	mount, err := filepath.Abs(flags.Arg(1))
	if err != nil {
		return err
	}
	b, err := statsFile(*stats)
	if err != nil {
		return err
	}
	if err := hurry(); err != nil {
		return err
	}
	s, err := mountServer(m, source, mount, b)
	if err != nil {
		return err
	}
	if *parent {
		ctx = untilEOF(ctx, in)
		// What a parent has made for us it may not be there to remove.
		defer removeMountDir(mount)
	}
	if err := json.NewEncoder(out).Encode(greeting{Disk: m.String(), Mount: mount}); err != nil {
		return errors.Join(err, s.unmount())
	}
	return s.wait(ctx)
}

// statsFile makes the board in a file, or in memory of our own if nobody wants it.
func statsFile(path string) (*board, error) {
	if path == "" {
		f, err := memoryFile()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return newBoard(f)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return newBoard(f)
}

// untilEOF is ctx until nothing more can be read: the parent has closed its end or
// is gone.
func untilEOF(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx
}

// define makes the flags of all parameters, with those of m as their defaults.
func (m *Model) define(flags *flag.FlagSet) {
	flags.DurationVar(&m.Seek, "seek", m.Seek, "time to get to another place")
	flags.DurationVar(&m.Rotation, "rotation", m.Rotation, "time until the data come by there")
	flags.Int64Var(&m.Bandwidth, "bandwidth", m.Bandwidth, "bytes per second")
	flags.Int64Var(&m.ReadAhead, "read-ahead", m.ReadAhead, "bytes that the kernel reads ahead")
	flags.Int64Var(&m.MaxRequest, "max-request", m.MaxRequest, "bytes of the largest request")
	flags.Int64Var(&m.Slice, "slice", m.Slice, "bytes in a row before older requests elsewhere go first")
	flags.Int64Var(&m.Window, "window", m.Window, "bytes within which neighbours are put in order")
	flags.DurationVar(&m.Lookahead, "lookahead", m.Lookahead, "time that the drive itself reads on")
	flags.BoolVar(&m.WriteBack, "write-back", m.WriteBack, "the page cache takes up what is written")
}

// args returns the flags for a model.
func (m Model) args() []string {
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	var args []string
	for _, f := range []struct{ name, value string }{
		{"seek", m.Seek.String()}, {"rotation", m.Rotation.String()}, {"bandwidth", number(m.Bandwidth)},
		{"read-ahead", number(m.ReadAhead)}, {"max-request", number(m.MaxRequest)},
		{"slice", number(m.Slice)}, {"window", number(m.Window)}, {"lookahead", m.Lookahead.String()}, {"write-back", strconv.FormatBool(m.WriteBack)},
	} {
		args = append(args, "--"+f.name+"="+f.value)
	}
	return args
}
