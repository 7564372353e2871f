// Connects with Node's TLS. Arguments: port, CA file, certificate, key.
const fs = require("fs");
const https = require("https");

const [port, ca, cert, key] = process.argv.slice(2);
const [caPem, certPem, keyPem] = [ca, cert, key].map((file) => fs.readFileSync(file));
// Node takes one certificate a string.
const authorities = String(caPem).match(/-----BEGIN[^]*?-----END CERTIFICATE-----/g);
for (const host of ["localhost", "127.0.0.1"]) {
  const options = { host: "127.0.0.1", port, ca: authorities, cert: certPem, key: keyPem, timeout: 30_000 };
  options.checkServerIdentity = (_, peer) => require("tls").checkServerIdentity(host, peer);
  https.get(options, (response) => response.on("data", (text) => console.log(String(text)))).on("error", (error) => {
    console.error(String(error));
    process.exit(1);
  });
}
