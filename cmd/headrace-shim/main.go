package main

import (
	"os"

	"headrace/proc/attach"
	"headrace/proc/shim"
	"headrace/stream/consumer"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "attach":
			os.Exit(attach.Run(os.Args[2:]))
		case "attached":
			os.Exit(attach.Wait(os.Args[2:]))
		case "consume":
			os.Exit(consumer.Run(os.Args[2:]))
		}
	}
	os.Exit(shim.Main(os.Args[1:]))
}
