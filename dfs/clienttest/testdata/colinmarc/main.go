// Command colinmarc does with github.com/colinmarc/hdfs what its users do, on the file system at an address, as a user, with so many copies
// of its file.
package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"

	"github.com/colinmarc/hdfs/v2"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("well")
}

func run(address string) error {
	c, err := hdfs.NewClient(hdfs.ClientOptions{Addresses: []string{address}, User: os.Args[2]})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.MkdirAll("/go/d", 0o755); err != nil {
		return fmt.Errorf("mkdir: %w", err)
	}
	data := make([]byte, 5<<20+13)
	rand.New(rand.NewSource(1)).Read(data)
	copies, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	w, err := c.CreateFile("/go/d/f", copies, 1<<20, 0o644)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := w.Write(data[:4<<20]); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if w, err = c.Append("/go/d/f"); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if _, err := w.Write(data[4<<20:]); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if err := c.Rename("/go/d/f", "/go/d/g"); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	f, err := c.Open("/go/d/g")
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, data) {
		return fmt.Errorf("read %d bytes: %v", len(got), err)
	}
	if _, err := f.ReadAt(got[:100], 1<<20-50); err != nil || !bytes.Equal(got[:100], data[1<<20-50:1<<20+50]) {
		return fmt.Errorf("read in the middle: %v", err)
	}
	if _, err := f.Checksum(); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	names, err := c.ReadDir("/go/d")
	if err != nil || len(names) != 1 || names[0].Size() != int64(len(data)) {
		return fmt.Errorf("list: %v, %v", names, err)
	}
	if err := c.Chmod("/go/d/g", 0o600); err != nil {
		return err
	}
	if _, err := c.Stat("/go/nothing"); !os.IsNotExist(err) {
		return fmt.Errorf("what is not there: %v", err)
	}
	return c.RemoveAll("/go")
}
