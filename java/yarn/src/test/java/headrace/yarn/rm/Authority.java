package headrace.yarn.rm;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/**
 * An authority for certificates that nobody knows.
 *
 * @param certificate its own, in PEM
 * @param tls of a server at 127.0.0.1, whose certificate it has signed
 */
record Authority(Path certificate, SSLContext tls) {
    private static final String PASSWORD = "changeit";

    static Authority make(Path dir) throws Exception {
        String ca = dir.resolve("ca.p12").toString();
        String server = dir.resolve("server.p12").toString();
        Path certificate = dir.resolve("ca.pem");
        String request = dir.resolve("server.csr").toString();
        String signed = dir.resolve("server.pem").toString();
        keytool(ca, "-genkeypair", "-alias", "ca", "-keyalg", "EC", "-dname", "CN=own authority", "-ext", "bc=ca:true");
        keytool(ca, "-exportcert", "-rfc", "-alias", "ca", "-file", certificate.toString());
        keytool(server, "-genkeypair", "-alias", "server", "-keyalg", "EC", "-dname", "CN=manager");
        keytool(server, "-certreq", "-alias", "server", "-file", request);
        keytool(ca, "-gencert", "-rfc", "-alias", "ca", "-infile", request, "-outfile", signed, "-ext", "san=ip:127.0.0.1");
        keytool(server, "-importcert", "-noprompt", "-alias", "ca", "-file", certificate.toString());
        keytool(server, "-importcert", "-noprompt", "-alias", "server", "-file", signed);
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(Path.of(server))) {
            store.load(in, PASSWORD.toCharArray());
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, PASSWORD.toCharArray());
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(keys.getKeyManagers(), null, null);
        return new Authority(certificate, tls);
    }

    private static void keytool(String store, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString()));
        command.addAll(List.of(arguments));
        command.addAll(List.of("-keystore", store, "-storetype", "PKCS12", "-storepass", PASSWORD));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (process.waitFor() != 0) {
            throw new IOException(String.join(" ", command) + ": " + said);
        }
    }
}
