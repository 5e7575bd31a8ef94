package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhichPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := new(Programs).Find(); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without headrace: %v", err)
	}
	onPath := filepath.Join(dir, "headrace")
	if err := os.WriteFile(onPath, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[Programs]Programs{
		{}:                             {Headrace: onPath, Lab: self},
		{Headrace: "/h"}:               {Headrace: "/h", Lab: self},
		{Lab: "/l"}:                    {Headrace: onPath, Lab: "/l"},
		{Headrace: "/h", Lab: "/else"}: {Headrace: "/h", Lab: "/else"},
	} {
		if got := given; got.Find() != nil || got != want {
			t.Errorf("%+v: %+v, want %+v", given, got, want)
		}
	}
}
