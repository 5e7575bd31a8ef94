package headrace.hivequery;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.session.SessionState;

/**
 * Runs statements, its arguments, in a Hive that has its metastore in this process, with the settings in hive-site.xml.
 * Writes their rows to standard output.
 */
public final class Query {
    private Query() { }

    public static void main(String[] statements) throws Exception {
        HiveConf conf = new HiveConf(Query.class);
        SessionState.start(new SessionState(conf));
        for (String statement : statements) {
            try (IDriver driver = DriverFactory.newDriver(conf)) {
                driver.run(statement);
                List<String> rows = new ArrayList<>();
                while (driver.getResults(rows)) {
                    rows.forEach(row -> System.out.println("row " + row));
                    rows.clear();
                }
            }
        }
        SessionState.get().close();
        System.exit(0); // the metastore has threads that would stay
    }
}
