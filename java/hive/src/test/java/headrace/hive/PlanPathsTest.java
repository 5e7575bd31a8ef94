package headrace.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** With plans as Hive makes them; nothing runs. */
class PlanPathsTest {
    private static Warehouse hive;

    @BeforeAll
    static void makeTables() throws Exception {
        hive = Warehouse.get();
        hive.session();
        for (String statement : new String[] {"create database plans", "use plans", "create table t (a int, b string)",
            "create table o (a int, b string) stored as orc", "create table p (a int, b string) stored as parquet",
            "create table u (a int, b string)", "create view v as select a, b from t where a > 3",
            "create external table days (a int, b string) partitioned by (day string)",
            "alter table days add partition (day='1') partition (day='2') partition (day='3:4')"
                + " partition (day='5') location '/elsewhere/{x}'"}) {
            Warehouse.run(statement);
        }
    }

    @AfterAll
    static void dropTables() throws Exception {
        hive.session();
        Warehouse.run("drop database plans cascade");
    }

    /** What tasks read, or, in brackets, what Hive reads when there is none. */
    private static Set<String> paths(HiveConf conf, String sql) throws Exception {
        try (IDriver driver = DriverFactory.newDriver(conf)) {
            driver.compileAndRespond(sql);
            Set<String> paths = new TreeSet<>(PlanPaths.ofTasks(driver.getPlan(), conf));
            PlanPaths.ofFetch(driver.getPlan(), conf).forEach(path -> paths.add("[" + path + "]"));
            return paths.stream().map(path -> path.replace(hive.at("/warehouse/plans.db/"), ""))
                .collect(Collectors.toCollection(TreeSet::new));
        }
    }

    private static HiveConf session(String engine, String... settings) throws Exception {
        HiveConf conf = hive.session(settings);
        conf.set("hive.execution.engine", engine);
        Warehouse.run("use plans");
        return conf;
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "select b, count(*) from t group by b | t",
        "select b, count(*) from o where a > 1 group by b order by b limit 3 | o",
        "select count(*) from days where day = '2' | days/day=2",
        "select count(*) from days where day > '2' | days/day=3%3A4 hdfs:/elsewhere/\\{x\\}",
        "select count(*) from days where day = '7' | ''",
        "select t.b, o.b from t join o on t.a = o.a | t o",
        "select t.b from t left join p on t.a = p.a where t.a not in (select a from o) | t p o",
        "with c as (select a from t union all select a from p where a > 1) select a, count(*) from c group by a | t p",
        "select b, count(*) from (select b, a, count(*) from t group by b, a) x group by b | t",
        "select x.a, count(*) from v x join v y on x.a = y.a group by x.a | t",
        "insert into u select t.a, d.b from t join days d on t.a = d.a where d.day = '1' | t days/day=1",
        "create table made as select a, max(b) from o group by a | o",
        "from t insert overwrite table u select a, b insert overwrite table p select a, b where a > 2 | t",
        "select x.b, o.b from (select a, b from t limit 5) x join o on x.a = o.a | o",
        "select count(*) from days tablesample (5 rows) | ''",
        "insert into u values (1, 'x') | ''",
        "select max(day) from days | ''",
        "select 1 | ''",
        "show tables | ''",
        "explain select count(*) from t | ''",
        "select * from t | [t]",
        "select a from days where day < '3' and b = 'x' | [days/day=1] [days/day=2]",
    })
    void findsWhatAQueryReads(String sql, String want) throws Exception {
        Set<String> all = want.isEmpty() ? Set.of() : Arrays.stream(want.split(" "))
            .map(path -> path.replace("hdfs:", hive.at(""))).collect(Collectors.toSet());
        for (String engine : new String[] {"mr", "tez"}) {
            HiveConf conf = session(engine, "hive.optimize.metadataonly", "true");
            assertEquals(new TreeSet<>(all), paths(conf, sql), engine);
        }
    }

    @Test
    void leavesOutHowMuchALimitReads() throws Exception {
        assertEquals(Set.of(), paths(session("mr"), "select * from t limit 3"));
        HiveConf conf = session("tez", "hive.fetch.task.conversion", "none");
        assertEquals(Set.of(), paths(conf, "select b from t where a > 1 limit 5"));
        assertEquals(Set.of("t"), paths(conf, "select b from t where a > 1"));
    }

    @Test
    void leavesOutWhatAnotherTableDecides() throws Exception {
        String sql = "select d.b from days d join t on d.day = t.b where t.a = 2";
        String[] statistics = {"hive.tez.dynamic.partition.pruning", "true", "hive.auto.convert.join", "false"};
        assertEquals(Set.of("t"), paths(session("tez", statistics), sql));
        statistics[1] = "false";
        Set<String> all = paths(session("tez", statistics), sql);
        assertEquals(5, all.size(), all::toString);
    }

    @Test
    void findsSomeOfVeryMany() throws Exception {
        HiveConf conf = session("tez");
        try (IDriver driver = DriverFactory.newDriver(conf)) {
            driver.compileAndRespond("select count(*) from days");
            assertEquals(4, PlanPaths.ofTasks(driver.getPlan(), conf).size());
            assertEquals(3, PlanPaths.ofTasks(driver.getPlan(), conf, 3).size());
        }
    }

    @Test
    void findsTheTablesOfJoinsInMappers() throws Exception {
        for (String engine : new String[] {"mr", "tez"}) {
            assertEquals(Set.of("t", "o"), paths(session(engine, "hive.auto.convert.join", "true",
                "hive.auto.convert.join.noconditionaltask", "true"), "select t.b, o.b from t join o on t.a = o.a"), engine);
        }
        assertEquals(Set.of("t", "o"), paths(session("mr"), "select /*+ mapjoin(o) */ t.b, o.b from t join o on t.a = o.a"));
    }
}
