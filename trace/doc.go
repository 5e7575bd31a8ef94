// Package trace reads traces of clusters: which jobs and tasks were submitted when,
// how long they ran, and what they read, moved and wrote.
//
// # Workloads
//
// A Workload is the tasks that a cluster is asked to run. Open makes one of any trace:
// Google's events (clusterdata-2011-2), jobs of SWIM, records of YARN, a CSV of our own
// (WriteCSV), and generated days (Day). Describe says what is in it;
// DescribeSource does so for traces that are larger than memory. What the formats are
// and how tasks are made of them is in docs/traces.md.
//
// # Parts
//
// GoogleDir and GoogleJobsDir read the events of Google's traces, GoogleFold makes tasks
// of them. Read reads jobs in the format of SWIM (the Statistical Workload Injector for
// MapReduce), in which days of Facebook's clusters are published; one of these comes
// with this package (FacebookDay).
//
// # Sequences
//
// Jobs come as a sequence that is read as it is used, in the order of submission:
//
//	jobs := trace.Scaled(trace.First(trace.Read(r), 200), trace.Scale{Bytes: 0.1, Time: 0.5})
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
package trace
