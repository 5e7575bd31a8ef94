package headrace.sparkyarn;

import io.trino.tpch.TpchEntity;
import io.trino.tpch.TpchTable;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;

/** The tables of TPC-H as text, several files each, and their columns. */
final class Tables {
    private static final String MONEY = "DECIMAL(15,2)";

    /** Columns of each table, in the order in which the generator has them. */
    private static final Map<String, String> COLUMNS = Map.of(
        "region", "r_regionkey INT, r_name STRING, r_comment STRING",
        "nation", "n_nationkey INT, n_name STRING, n_regionkey INT, n_comment STRING",
        "supplier", "s_suppkey INT, s_name STRING, s_address STRING, s_nationkey INT, s_phone STRING, s_acctbal " + MONEY
            + ", s_comment STRING",
        "customer", "c_custkey INT, c_name STRING, c_address STRING, c_nationkey INT, c_phone STRING, c_acctbal " + MONEY
            + ", c_mktsegment STRING, c_comment STRING",
        "part", "p_partkey INT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING,"
            + " p_retailprice " + MONEY + ", p_comment STRING",
        "partsupp", "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost " + MONEY + ", ps_comment STRING",
        "orders", "o_orderkey INT, o_custkey INT, o_orderstatus STRING, o_totalprice " + MONEY + ", o_orderdate DATE,"
            + " o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING",
        "lineitem", "l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity " + MONEY + ", l_extendedprice "
            + MONEY + ", l_discount " + MONEY + ", l_tax " + MONEY + ", l_returnflag STRING, l_linestatus STRING, l_shipdate DATE,"
            + " l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, l_comment STRING");

    private Tables() { }

    /**
     * Makes all of them below a directory.
     *
     * @param scale 1: a gigabyte
     * @param most about how many bytes a file has at most
     * @return the files with their sizes
     */
    static Map<String, Long> make(FileSystem fs, String dir, double scale, long most) throws IOException {
        Map<String, Long> files = new LinkedHashMap<>();
        for (TpchTable<?> table : TpchTable.getTables()) {
            long bytes = 0;
            for (TpchEntity row : table.createGenerator(scale, 1, 1)) {
                bytes += row.toLine().length();
            }
            int parts = (int) Math.max(1, (bytes + most - 1) / most);
            for (int part = 1; part <= parts; part++) {
                Path path = new Path(String.format("%s/%s/%03d", dir, table.getTableName(), part));
                write(fs, path, table.createGenerator(scale, part, parts));
                files.put(path.toString(), fs.getFileStatus(path).getLen());
            }
        }
        return files;
    }

    private static void write(FileSystem fs, Path path, Iterable<? extends TpchEntity> rows) throws IOException {
        try (OutputStream out = fs.create(path)) {
            StringBuilder text = new StringBuilder();
            for (TpchEntity row : rows) {
                String line = row.toLine();
                text.append(line, 0, line.length() - 1).append('\n'); // without the separator after the last column
            }
            out.write(text.toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    /** Has queries find the tables below a directory; nothing of them is read for it. */
    static void register(SparkSession spark, String dir) {
        COLUMNS.forEach((name, columns) ->
            spark.read().option("sep", "|").schema(columns).csv(dir + "/" + name).createOrReplaceTempView(name));
    }
}
