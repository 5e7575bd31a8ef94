package hdfs

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"headrace/lab/yarn"
)

// kindQuery is that of a query, which the Submitter does not know.
const kindQuery = "query"

const (
	// tables is where those of TPC-H are, whose files have a few blocks.
	tables    = "/tpch"
	fileBytes = 3 * block
	// scaleHere gives lineitem, which most queries read, 38 MB: what three disks read in five
	// seconds.
	scaleHere  = 0.05
	scaleQuick = 0.005
)

// A query of TPC-H (its specification, section 2.4), with the parameters of the
// validation, in an order that is always the same, and the tables that it reads.
type query struct {
	name, tables, sql string
}

var queries = []query{
	{"q1", "lineitem", `select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
		sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
		from lineitem where l_shipdate <= date '1998-12-01' - interval 90 day group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus`},
	{"q3", "customer orders lineitem", `select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
		from customer, orders, lineitem where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
		and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
		group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10`},
	{"q4", "orders lineitem", `select o_orderpriority, count(*) from orders where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'
		and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) group by o_orderpriority order by o_orderpriority`},
	{"q5", "customer orders lineitem supplier nation region", `select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
		from customer, orders, lineitem, supplier, nation, region where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
		and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'ASIA'
		and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01' group by n_name order by revenue desc`},
	{"q6", "lineitem", `select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
		and l_discount between 0.05 and 0.07 and l_quantity < 24`},
	{"q10", "customer orders lineitem nation", `select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address, c_phone, c_comment
		from customer, orders, lineitem, nation where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01'
		and o_orderdate < date '1994-01-01' and l_returnflag = 'R' and c_nationkey = n_nationkey
		group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment order by revenue desc, c_custkey limit 20`},
	{"q12", "orders lineitem", `select l_shipmode, sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end),
		sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) from orders, lineitem
		where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
		and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01' group by l_shipmode order by l_shipmode`},
	{"q13", "customer orders", `select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) as c_count
		from customer left outer join orders on c_custkey = o_custkey and o_comment not like '%special%requests%' group by c_custkey)
		group by c_count order by custdist desc, c_count desc`},
	{"q14", "lineitem part", `select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end) / sum(l_extendedprice * (1 - l_discount))
		from lineitem, part where l_partkey = p_partkey and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'`},
}

// queries makes the tables, and runs every query in every mode.
func (b *bench) queries(ctx context.Context) (err error) {
	if b.spark, err = b.cluster.Queries(ctx, b.o.Jars.Module("spark")); err != nil {
		return err
	}
	b.res.Plan.Scale = scaleHere
	chosen := queries
	if b.o.Quick {
		b.res.Plan.Scale, chosen = scaleQuick, queries[4:5] // q6
	}
	b.h.Say(0, "queries: making the tables")
	var made map[string]int64
	err = b.cluster.Unmodelled(func() (err error) {
		made, err = b.spark.Make(ctx, yarn.QueryOrder{Name: "tables", Dir: tables, Scale: b.res.Plan.Scale, Most: fileBytes})
		return err
	})
	if err != nil {
		return err
	}
	var all []plannedJob
	for _, q := range chosen {
		j := plannedJob{name: q.name, kind: kindQuery, sql: q.sql}
		for _, file := range slices.Sorted(maps.Keys(made)) {
			if slices.Contains(strings.Fields(q.tables), path.Base(path.Dir(file))) {
				j.inputs = append(j.inputs, file)
				j.input += made[file]
			}
		}
		all = append(all, j)
	}
	// A driver that has planned nothing yet is slower by seconds.
	for _, j := range all {
		b.h.Say(0, "queries: %s, for the driver to have seen it", j.name)
		b.runs++
		if _, err := b.query(ctx, modeStock, j); err != nil {
			return err
		}
	}
	return b.part(ctx, partQueries, alone(all...))
}

// query runs one, whose executors are asked for when it has tasks for them, as containers
// are by others.
func (b *bench) query(ctx context.Context, mode string, j plannedJob) (Job, error) {
	o := yarn.QueryOrder{Name: fmt.Sprintf("%s-%d", j.name, b.runs), Dir: tables, Query: j.sql, Properties: map[string]string{
		"spark.dynamicAllocation.enabled":                 "true",
		"spark.dynamicAllocation.shuffleTracking.enabled": "true",
		"spark.dynamicAllocation.initialExecutors":        "0",
		"spark.dynamicAllocation.maxExecutors":            fmt.Sprint(servers),
		"spark.executor.cores":                            "2",
		"spark.locality.wait":                             "1s",
		"spark.sql.shuffle.partitions":                    "4",
		"spark.sql.files.maxPartitionBytes":               fmt.Sprint(fileBytes),
		"spark.sql.files.openCostInBytes":                 fmt.Sprint(block / 4),
	}}
	if mode == modeWarmed {
		o.Properties["spark.plugins"] = "headrace.spark.WarmPlugin"
		o.Properties["spark.executor.extraClassPath"] = b.cluster.SparkClassPath(b.o.Jars.Module("spark"))
		o.Properties["spark.hadoop.headrace.node.socket"] = b.cluster.Socket(0)
	}
	e, err := b.spark.Run(ctx, o)
	if err != nil {
		return Job{}, fmt.Errorf("%w%s", err, b.cluster.Said(e.Application))
	}
	return Job{Name: j.name, Input: j.input, Duration: e.Took}, b.answers.Check(j.name, e.Answer)
}
