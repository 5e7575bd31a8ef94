package main

import (
	"os"

	"headrace/proc/shim"
	"headrace/stream/consumer"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "consume" {
		os.Exit(consumer.Run(os.Args[2:]))
	}
	os.Exit(shim.Main(os.Args[1:]))
}
