package headrace.yarn.rm;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/**
 * An authority for certificates that nobody knows, from files that were made once: to make them takes seven virtual machines
 * (keytool). They are good from 2020 to 2120, the server's for 127.0.0.1 alone.
 *
 * @param certificate its own, in PEM
 * @param tls of a server at 127.0.0.1, whose certificate it has signed
 */
record Authority(Path certificate, SSLContext tls) {
    private static final char[] PASSWORD = "changeit".toCharArray();

    static Authority make(Path dir) throws Exception {
        Path certificate = dir.resolve("ca.pem");
        try (InputStream in = Authority.class.getResourceAsStream("/authority/ca.pem")) {
            Files.copy(in, certificate);
        }
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Authority.class.getResourceAsStream("/authority/server.p12")) {
            store.load(in, PASSWORD);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, PASSWORD);
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(keys.getKeyManagers(), null, null);
        return new Authority(certificate, tls);
    }
}
