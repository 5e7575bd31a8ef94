package main

import (
	"fmt"
	"os"
)

func main() {
	c := newCounter(os.Stdout)
	if err := c.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		os.Exit(1)
	}
	if !c.finish() {
		os.Exit(1)
	}
}
