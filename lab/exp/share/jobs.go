package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headrace/lab/yarn"
)

// A job is one that can be run at once, and ended.
type job struct {
	run   func(ctx context.Context, start time.Time, files []string) (Job, error)
	close func(ctx context.Context) error
}

// jobs makes the two of a run. The first has its executors before the second is there: see
// executorFirst.
func (b *bench) jobs(ctx context.Context, e entry) (first, second *job, err error) {
	if e.part == partFrameworks {
		if second, err = b.spark(ctx, e.mode, 1, executorFirst); err == nil {
			first = b.mapReduce(e.mode)
		}
		return first, second, err
	}
	if first, err = b.spark(ctx, e.mode, 0, executorFirst); err != nil {
		return nil, nil, err
	}
	if second, err = b.spark(ctx, e.mode, 1, executorNext); err != nil {
		return nil, nil, errors.Join(err, first.close(ctx))
	}
	return first, second, nil
}

// spark opens an application, in the driver of the first or of the second job, and has it
// practise. An executor has so many MB of memory.
func (b *bench) spark(ctx context.Context, mode string, which, memory int) (*job, error) {
	properties := map[string]string{
		"spark.executor.cores":          fmt.Sprint(b.res.Plan.Cores),
		"spark.executor.memory":         fmt.Sprintf("%dm", executorHeap),
		"spark.executor.memoryOverhead": fmt.Sprintf("%dm", memory-executorHeap),
		// Where practice is read nothing is read ahead, which would stay.
		"spark.hadoop.fs.viewfs.mounttable.lab.link./share": b.cluster.HDFS.URL() + "/share",
	}
	if ours(mode) {
		properties["spark.plugins"] = "headrace.spark.MemoryLocalityPlugin"
		properties["spark.executor.extraClassPath"] = b.cluster.SparkClassPath(b.o.Jars.Module("spark"))
		properties["spark.hadoop.headrace.node.socket"] = b.cluster.Socket(0)
	}
	if mode == modeAtOnce {
		properties["spark.hadoop.headrace.locality.delay"] = "0"
	}
	if mode == modeWarmed {
		properties["spark.plugins"] += ",headrace.spark.WarmPlugin"
		properties["spark.hadoop.headrace.warm.implicit"] = "true"
	}
	driver := b.drivers[which]
	opened, err := driver.Open(ctx, fmt.Sprintf("lines%d-%d", which, b.runs), b.res.Plan.Executors, properties)
	if err != nil {
		return nil, fmt.Errorf("start an application of Spark: %w%s", err, b.cluster.Said(opened.Application))
	}
	j := &job{close: driver.Close, run: func(ctx context.Context, start time.Time, files []string) (Job, error) {
		began := time.Since(start)
		e, err := driver.Count(ctx, files)
		if err != nil {
			return Job{}, fmt.Errorf("count lines: %w%s", err, b.cluster.Said(opened.Application))
		}
		return Job{Framework: "Spark", Began: began.Seconds(), Duration: e.Took, Metrics: e.Metrics}, b.answers.Check(answerOf("Spark", files), e.Answer)
	}}
	if _, err := j.run(ctx, time.Now(), []string{"viewfs://lab" + practice}); err != nil {
		return nil, errors.Join(err, driver.Close(ctx))
	}
	return j, nil
}

// mapReduce returns a job of MapReduce that reads all of the files, and adds up their checksums.
func (b *bench) mapReduce(mode string) *job {
	return &job{close: func(context.Context) error { return nil }, run: func(ctx context.Context, start time.Time, files []string) (Job, error) {
		name := fmt.Sprint("sums-", b.runs)
		perMap := (int64(len(files))*b.res.Plan.Part/block + 5) / 6 * block
		o := yarn.SubmitterOrder{Name: name, Kind: "ratios", Inputs: files, Output: "/out/" + name, Properties: map[string]string{
			"mapreduce.job.queuename":                       "low",
			"mapreduce.input.fileinputformat.split.maxsize": fmt.Sprint(perMap),
			"mapreduce.map.speculative":                     "false",
			"headrace.ratio.readers":                        fmt.Sprint(b.res.Plan.Cores),
			"headrace.warm":                                 fmt.Sprint(mode == modeWarmed),
			"headrace.warm.implicit":                        "true",
			"headrace.node.socket":                          b.cluster.Socket(0),
		}}
		began := time.Since(start)
		e, err := b.submitter.Run(ctx, o)
		if err != nil {
			return Job{}, fmt.Errorf("%w%s", err, b.cluster.Said(e.Application))
		}
		return Job{Framework: "MapReduce", Began: began.Seconds(), Duration: e.Took}, b.answers.Check(answerOf("MapReduce", files), e.Answer)
	}}
}
