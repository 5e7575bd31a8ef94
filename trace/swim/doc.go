// Package swim reads jobs in the format of SWIM (the Statistical Workload Injector for
// MapReduce), in which days of Facebook's clusters are published, and makes tasks of them.
// One of these days comes with this package (FacebookDay).
//
// # Sequences
//
// Jobs come as a sequence that is read as it is used, in the order of submission:
//
//	jobs := swim.Scaled(swim.First(swim.Read(r), 200), swim.Scale{Bytes: 0.1, Time: 0.5})
//	for job, err := range jobs {
//		if err != nil {
//			return err
//		}
//		...
//	}
//
// An error is the last element. No more than a line of a trace is held in memory,
// whatever its size, unless Collect is asked for all. A sequence may be used
// several times if what it reads from may; that made by Read may be used once.
//
// # The format of SWIM
//
// One job in each line, in fields that are separated by tabs:
//
//	name   submitted   gap   input   shuffle   output   [input path   [output path]]
//
// Submitted is in seconds since the start of the trace and does not go back from
// one line to the next. The gap is the seconds since the line before; it says
// nothing new, and is only checked to be a number. Input, shuffle and output are
// bytes. Paths are left out, or empty, where they are not known; the published
// files end their lines with an empty field or two. Empty lines are skipped.
package swim
