//! Reading of certificates that rcgen makes, and of damaged ones.

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, IsCa, KeyPair, PublicKeyData, SanType,
    SerialNumber, date_time_ymd,
};

use super::*;

const SUBJECT_ALT_NAME: [u64; 4] = [2, 5, 29, 17];

fn uri(text: &str) -> SanType {
    SanType::URI(Ia5String::try_from(text).unwrap())
}

fn params() -> CertificateParams {
    let mut params = CertificateParams::new(["s1.internal".to_owned(), "::1".into()]).unwrap();
    params.subject_alt_names.push(uri("seqsvr://prod/store/s1"));
    params.serial_number = Some(SerialNumber::from_slice(&[0, 0, 0x80, 1]));
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2050, 1, 1);
    params
}

fn sign(params: &CertificateParams) -> (Vec<u8>, KeyPair) {
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().der().to_vec(), key)
}

fn rejection(params: &CertificateParams) -> String {
    let error = Certificate::parse(&sign(params).0).unwrap_err();
    error.to_string()
}

#[test]
fn all_parts_of_a_certificate_are_read() {
    let (der, key) = sign(&params());
    let certificate = Certificate::parse(&der).unwrap();
    let unix_s = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    // The last second of the years with two digits is 2049-12-31T23:59:59.
    let ends = (
        unix_s(certificate.not_before),
        unix_s(certificate.not_after),
    );
    assert_eq!(ends, (1_767_225_600, 2_524_608_000));
    assert_eq!(certificate.serial, [0x80, 1]);
    assert_eq!(certificate.subject, certificate.issuer);
    assert_eq!(certificate.public_key, key.subject_public_key_info());
    assert_eq!(certificate.dns_names, ["s1.internal"]);
    assert_eq!(certificate.ip_addresses, ["::1".parse::<IpAddr>().unwrap()]);
    let identity = certificate.identity().unwrap();
    assert_eq!(identity.to_string(), "seqsvr://prod/store/s1");
}

#[test]
fn certificate_without_exactly_one_identity_has_none() {
    let mut with_two = params();
    with_two
        .subject_alt_names
        .push(uri("seqsvr://prod/admin/a"));
    let mut with_same_twice = params();
    with_same_twice
        .subject_alt_names
        .push(uri("seqsvr://prod/store/s1"));
    let mut with_none = params();
    with_none.subject_alt_names.pop();
    let mut of_ca = params();
    of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut with_other = params();
    with_other.subject_alt_names = vec![uri("spiffe://prod/store/s1")];
    for (params, why) in [
        (with_two, "2 URIs instead of one"),
        (with_same_twice, "2 URIs instead of one"),
        (with_none, "0 URIs instead of one"),
        (of_ca, "one of a CA"),
        (with_other, "does not begin with seqsvr://"),
    ] {
        let certificate = Certificate::parse(&sign(&params).0).unwrap();
        let error = certificate.identity().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn certificate_with_malformed_names_is_rejected() {
    let custom = |content: &[u8]| {
        let mut params = params();
        params.subject_alt_names.clear();
        let extension = CustomExtension::from_oid_content(&SUBJECT_ALT_NAME, content.to_vec());
        params.custom_extensions.push(extension);
        params
    };
    let valid = [0x30, 6, 0x87, 4, 10, 0, 0, 1];
    assert!(Certificate::parse(&sign(&custom(&valid)).0).is_ok());

    let of_five_bytes = [0x30, 7, 0x87, 5, 10, 0, 0, 1, 0];
    assert!(rejection(&custom(&of_five_bytes)).contains("an IP address of 5 bytes"));
    // A URI with a byte above 127, which another reader may skip.
    let not_ascii = [0x30, 4, 0x86, 2, b'a', 0xe4];
    assert!(rejection(&custom(&not_ascii)).contains("no certificate in X.509 form"));
    let trailing = [0x30, 3, 0x86, 1, b'a', 0];
    assert!(rejection(&custom(&trailing)).contains("no certificate in X.509 form"));
    // Two extensions with names: readers differ in which they take.
    let mut twice = params();
    let second = CustomExtension::from_oid_content(&SUBJECT_ALT_NAME, valid.to_vec());
    twice.custom_extensions.push(second);
    assert!(rejection(&twice).contains("no certificate in X.509 form"));
}

#[test]
fn damaged_certificate_is_an_error_or_another_certificate_but_no_panic() {
    let (der, _) = sign(&params());
    for len in 0..der.len() {
        assert!(Certificate::parse(&der[..len]).is_err(), "{len} bytes");
    }
    let mut longer = der.clone();
    longer.push(0);
    assert!(Certificate::parse(&longer).is_err());
    for at in 0..der.len() {
        for bit in 0..8 {
            let mut damaged = der.clone();
            damaged[at] ^= 1 << bit;
            drop(Certificate::parse(&damaged));
        }
    }
}

#[test]
fn days_left_are_whole_days_and_negative_after_the_end() {
    let certificate = Certificate::parse(&sign(&params()).0).unwrap();
    let day = Duration::from_secs(DAY_SECS);
    let second = Duration::from_secs(1);
    let end = certificate.not_after;
    for (now, days) in [
        (end - 30 * day, 30),
        (end - 30 * day + second, 29),
        (end - second, 0),
        (end, 0),
        (end + second, -1),
        (end + day + second, -2),
    ] {
        assert_eq!(certificate.days_left(now), days);
    }
}
