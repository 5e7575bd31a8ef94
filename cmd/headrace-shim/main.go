package main

import (
	"os"

	"headrace/proc/shim"
)

func main() {
	os.Exit(shim.Main(os.Args[1:]))
}
