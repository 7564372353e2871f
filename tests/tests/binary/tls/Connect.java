import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Connects with the default provider. Arguments: port, CA file, certificate, key. */
public class Connect {
    public static void main(String[] args) throws Exception {
        CertificateFactory certificates = CertificateFactory.getInstance("X.509");
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        int count = 0;
        for (Certificate ca : certificates.generateCertificates(new FileInputStream(args[1]))) {
            trusted.setCertificateEntry("ca" + count++, ca);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(trusted);

        String pem = Files.readString(Path.of(args[3])).replaceAll("-----[A-Z ]*-----|\\s", "");
        PKCS8EncodedKeySpec der = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
        Certificate own = certificates.generateCertificate(new FileInputStream(args[2]));
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        char[] password = new char[0];
        keys.setKeyEntry("own", KeyFactory.getInstance("EC").generatePrivate(der), password, new Certificate[] {own});
        KeyManagerFactory manager = KeyManagerFactory.getInstance("PKIX");
        manager.init(keys, password);

        SSLContext context = SSLContext.getInstance("TLS");
        context.init(manager.getKeyManagers(), trust.getTrustManagers(), null);
        for (String host : new String[] {"localhost", "127.0.0.1"}) {
            HttpsURLConnection call = (HttpsURLConnection) new java.net.URL("https://" + host + ":" + args[0] + "/").openConnection();
            call.setSSLSocketFactory(context.getSocketFactory());
            System.out.println(new String(call.getInputStream().readAllBytes()));
        }
    }
}
