package rig

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/lab/belong"
)

// AddSwap makes a swap file of the given size in the scratch and switches it on.
// The scratch's removal switches it off.
func (s *Scratch) AddSwap(bytes int64) error {
	path := filepath.Join(s.Dir, "swap")
	if err := makeSwapFile(path, bytes); err != nil {
		return fmt.Errorf("make a swap file of %d bytes at %s: %w", bytes, path, err)
	}
	if err := swapOn(path); err != nil {
		return fmt.Errorf("switch on swap at %s: %w", path, err)
	}
	return nil
}

func makeSwapFile(path string, bytes int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if out, err := tool("mkswap", path).CombinedOutput(); err != nil {
		return fmt.Errorf("mkswap: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func swapOn(path string) error { return swapCall(unix.SYS_SWAPON, path) }

func swapOff(path string) error { return swapCall(unix.SYS_SWAPOFF, path) }

func swapCall(nr uintptr, path string) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(nr, uintptr(unsafe.Pointer(p)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// dropSwaps switches off the swap files in dir. What is in them must fit into
// memory, so the processes are ended before.
func dropSwaps(dir string) error {
	files, err := SwapFiles()
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if !belong.Below(dir, f) {
			continue
		}
		if err := swapOff(f); err != nil {
			errs = append(errs, fmt.Errorf("switch off swap at %s: %w", f, err))
		}
	}
	return errors.Join(errs...)
}

// SwapFiles returns the paths of all swap in use.
func SwapFiles() ([]string, error) {
	areas, err := linux.ProcFS("").Swaps()
	var files []string
	for _, a := range areas {
		files = append(files, a.Path)
	}
	return files, err
}

// Paged is what the whole machine has paged since it started, in bytes.
type Paged struct{ Out, In int64 }

// ReadPaged asks the kernel.
func ReadPaged() (Paged, error) {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return Paged{}, err
	}
	var p Paged
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		name, value, _ := strings.Cut(s.Text(), " ")
		if name != "pswpout" && name != "pswpin" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return Paged{}, fmt.Errorf("read /proc/vmstat: %s: %w", name, err)
		}
		if n *= int64(os.Getpagesize()); name == "pswpout" {
			p.Out = n
		} else {
			p.In = n
		}
	}
	return p, s.Err()
}

// Since returns what was paged after before.
func (p Paged) Since(before Paged) Paged { return Paged{p.Out - before.Out, p.In - before.In} }
