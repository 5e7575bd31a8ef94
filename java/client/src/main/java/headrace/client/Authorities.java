package headrace.client;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Trusts the certificates of a file. */
final class Authorities {
    private Authorities() {
    }

    /**
     * Returns what trusts the certificates in a file, and no others.
     *
     * @param pem one or more of them
     * @throws IllegalArgumentException when there are none that can be read; the message names the file
     */
    static SSLContext of(Path pem) {
        try (InputStream in = Files.newInputStream(pem)) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                store.setCertificateEntry(Integer.toString(store.size()), certificate);
            }
            if (store.size() == 0) {
                throw new IOException("there is no certificate in it");
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext tls = SSLContext.getInstance("TLS");
            tls.init(null, trust.getTrustManagers(), null);
            return tls;
        } catch (IOException | GeneralSecurityException e) {
            throw new IllegalArgumentException("the file " + pem + ", which is to have certificates in PEM that the manager's is"
                + " checked against, cannot be used: " + e, e);
        }
    }
}
