package main

import "headrace/cli"

func main() { cli.Main(execute) }
