package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"headrace/cli"
	"headrace/cli/clitest"
	"headrace/wire"
)

func TestEveryCommandHasHelp(t *testing.T) {
	clitest.EveryCommandHasHelp(t, newRoot(&app{App: cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}}), 15)
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]float64{"10": 10, "1.5": 1.5, "1m30s": 90, "0": 0, "250ms": 0.25} {
		var d cli.Span
		if err := d.Set(text); err != nil || d.Seconds() != want {
			t.Errorf("%q: %v, %v, want %v s", text, d.Seconds(), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "soon", "1e400", "99999999999h"} {
		var d cli.Span
		if err := d.Set(text); err == nil {
			t.Errorf("%q: accepted as %v s", text, d.Seconds())
		}
	}
}

func TestWhatTheProtocolCannotCarry(t *testing.T) {
	t.Setenv("HR_BAD", "\xff")
	t.Setenv("HR_GOOD", "1")
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }

	req, err := (&runFlags{}).request([]string{"true"}, say)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "HR_BAD") {
		t.Errorf("said %q about the variable that is left out", said)
	}
	if !slices.Contains(req.Env, "HR_GOOD=1") {
		t.Error("a good variable is missing")
	}
	if slices.ContainsFunc(req.Env, func(e string) bool { return strings.HasPrefix(e, "HR_BAD=") }) {
		t.Error("the bad variable is there")
	}
	for name, f := range map[string]*runFlags{
		"name": {name: "\xff"}, "env": {env: []string{"HR_X=\xff"}}, "env from here": {env: []string{"HR_BAD"}},
	} {
		_, err := f.request([]string{"true"}, say)
		if code, _ := cli.Outcome(err); code != cli.ExitUsage {
			t.Errorf("%s: %v, want wrong usage", name, err)
		}
	}
	if _, err := (&runFlags{}).request([]string{"echo", "\xff"}, say); err == nil {
		t.Error("an argument that cannot be sent was accepted")
	}
}

func TestWordsThatCannotBeSent(t *testing.T) {
	_, err := (&daemon{}).find(context.Background(), "\x01\xff")
	if code, line := cli.Outcome(err); code != cli.ExitUsage || line != `"\x01\xff" is not UTF-8 and cannot be the name of a task` {
		t.Errorf("an id that is not UTF-8: %d, %q", code, line)
	}
	_, err = proto.Marshal(&wire.WarmRequest{Job: "\xff"})
	if err == nil {
		t.Fatal("it can be sent")
	}
	if code, line := cli.Outcome(connect.NewError(connect.CodeInternal, fmt.Errorf("marshal message: %w", err))); code != cli.ExitUsage {
		t.Errorf("another word that is not UTF-8: %d, %q", code, line)
	}
}
