package main

import (
	"fmt"
	"strconv"

	"headrace/cli"
	"headrace/config"
)

// budget is a size that is more than nothing.
type budget cli.Size

func (n *budget) Type() string   { return (*cli.Size)(n).Type() }
func (n *budget) String() string { return (*cli.Size)(n).String() }

func (n *budget) Set(s string) error {
	v, err := config.Size(s)
	if err == nil && v == 0 {
		err = fmt.Errorf("want more than nothing; leave it out for the default")
	}
	if err == nil {
		*n = budget(v)
	}
	return err
}

// span is a duration that is more than none.
type span cli.Span

func (d *span) Type() string   { return (*cli.Span)(d).Type() }
func (d *span) String() string { return (*cli.Span)(d).String() }

func (d *span) Set(s string) error {
	var v cli.Span
	err := v.Set(s)
	if err == nil && v == 0 {
		err = fmt.Errorf("want more than no time; leave it out for the default")
	}
	if err == nil {
		*d = span(v)
	}
	return err
}

// kept is a flag for how many things are kept, 1 or more; 0: not given.
type kept uint32

func (n *kept) Type() string { return "NUMBER" }

func (n *kept) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*n), 10)
}

func (n *kept) Set(s string) error { return (*count)(n).Set(s) }
