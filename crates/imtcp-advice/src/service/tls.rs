// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The two files of TLS: a chain of certificates and its private key, both in PEM.
//!
//! An error names the file and the reason. A certificate that has expired is served with a
//! warning: a service that ends overnight helps nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use imtcp_client::secret_file::{read_public, read_secret};
use imtcp_client::time;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject, SectionKind};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, InconsistentKeys, ServerConfig};
use tokio_rustls::TlsAcceptor;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::Certificate;

use crate::error::{Error, Result};

/// 14 days: authorities issue for 47 days at least and programs renew a third before the end, so
/// one that is so near its end was not renewed.
const EXPIRES_SOON_S: i64 = 14 * DAY_S;
const DAY_S: i64 = 86_400;
const HOUR_S: i64 = 3_600;

/// A chain of certificates and its key, ready to serve.
pub struct Tls {
    pub acceptor: TlsAcceptor,
    file: PathBuf,
    names: Vec<String>,
    validities: Vec<Validity>,
}

/// How long a certificate of the chain is valid.
struct Validity {
    /// Its place in the file, and its subject where it has one.
    name: String,
    /// Unix time, from the first second to the last; `None`: this could not be read.
    period_s: Option<(i64, i64)>,
}

impl Tls {
    /// Reads both files.
    pub fn read(certificates: &Path, key: &Path) -> Result<Self> {
        let chain = read_chain(certificates).map_err(|e| of_certificate(certificates, e))?;
        let private = read_key(key).map_err(|e| of_key(key, e))?;
        let config = ServerConfig::builder().with_no_client_auth();
        let signing = config.crypto_provider().key_provider.load_private_key(private);
        let signing = signing.map_err(|e| {
            let kinds = "RSA of 2048 bits or more, ECDSA on P-256 or P-384, or Ed25519";
            of_key(key, format!("the key cannot be used: make one of {kinds} ({e})"))
        })?;
        let fits = |one: &CertificateDer<'static>| {
            CertifiedKey::new(vec![one.clone()], Arc::clone(&signing)).keys_match()
        };
        match fits(&chain[0]) {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                let Some(own) = chain.iter().position(|one| fits(one).is_ok()) else {
                    let shown = certificates.display();
                    return Err(of_key(
                        key,
                        format!("it is not the key of the certificate in {shown}"),
                    ));
                };
                let why = format!("certificate {} is the one of the key: put it first", own + 1);
                return Err(of_certificate(certificates, why));
            }
            Err(e) => {
                let why = format!("certificate 1 cannot be read ({e})");
                return Err(of_certificate(certificates, why));
            }
        }
        let validities = chain.iter().zip(1..).map(|(one, i)| Validity::of(one, i)).collect();
        let names = names_of(&chain[0]);
        let resolver = SingleCertAndKey::from(CertifiedKey::new(chain, signing));
        let config = Arc::new(config.with_cert_resolver(Arc::new(resolver)));
        Ok(Tls { acceptor: config.into(), file: certificates.into(), names, validities })
    }

    /// The names that the certificate is for; one may begin with `*.`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Unix time of the first moment at which a certificate of the chain has expired.
    pub fn expires_s(&self) -> Option<i64> {
        self.validities.iter().filter_map(|v| v.period_s).map(|(_, last_s)| last_s).min()
    }

    /// Warnings about the certificates for the log, at this time.
    pub fn warnings(&self, now_s: i64) -> Vec<String> {
        let file = self.file.display();
        let said = self.validities.iter().filter_map(|v| v.warning(now_s));
        said.map(|warning| format!("certificate file {file}: {warning}")).collect()
    }
}

fn names_of(certificate: &CertificateDer) -> Vec<String> {
    let parsed = Certificate::from_der(certificate).ok();
    let names = parsed.and_then(|c| c.tbs_certificate().get_extension::<SubjectAltName>().ok()?);
    let dns = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        _ => None,
    };
    names.into_iter().flat_map(|(_, names)| names.0).filter_map(dns).collect()
}

impl Validity {
    fn of(certificate: &CertificateDer, number: usize) -> Self {
        let parsed = Certificate::from_der(certificate).ok();
        let parsed = parsed.as_ref().map(Certificate::tbs_certificate);
        let subject = parsed.map(|c| c.subject().to_string()).unwrap_or_default();
        let name = match subject.as_str() {
            "" => format!("certificate {number}"),
            subject => format!("certificate {number} ({subject})"),
        };
        let period_s = parsed.map(|c| {
            let unix = |t: x509_cert::time::Time| t.to_unix_duration().as_secs() as i64;
            (unix(c.validity().not_before), unix(c.validity().not_after))
        });
        Validity { name, period_s }
    }

    fn warning(&self, now_s: i64) -> Option<String> {
        let name = &self.name;
        let Some((first_s, last_s)) = self.period_s else {
            return Some(format!("{name} does not say in a known form how long it is valid"));
        };
        let at = |s: i64| time::format(s.saturating_mul(time::SECOND_US));
        if last_s < now_s {
            let (at, ago) = (at(last_s), length(now_s - last_s));
            Some(format!(
                "{name} expired at {at}, {ago} ago, and clients refuse it: renew it, then send SIGHUP"
            ))
        } else if first_s > now_s {
            let (at, wait) = (at(first_s), length(first_s - now_s));
            Some(format!(
                "{name} is not valid before {at}, in {wait}, and clients refuse it until then: is \
                 this machine's clock right?"
            ))
        } else if last_s < now_s + EXPIRES_SOON_S {
            let (at, left) = (at(last_s), length(last_s - now_s));
            Some(format!("{name} expires at {at}, in {left}: renew it, then send SIGHUP"))
        } else {
            None
        }
    }
}

fn of_certificate(path: &Path, why: String) -> Error {
    Error::Input(format!("certificate file {}: {why}", path.display()))
}

fn of_key(path: &Path, why: String) -> Error {
    Error::Input(format!("key file {}: {why}", path.display()))
}

/// A length of time in whole days, or hours below two days.
fn length(s: i64) -> String {
    match s {
        s if s >= 2 * DAY_S => format!("{} days", s / DAY_S),
        s => format!("{} h", s / HOUR_S),
    }
}

type Section = (SectionKind, Vec<u8>);

/// The sections of a PEM file that are known, in their order.
fn sections(content: &[u8], as_pem: &str) -> std::result::Result<Vec<Section>, String> {
    if content.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty".into());
    }
    // DER of a certificate or a key is a sequence (0x30) of bytes that are no text.
    if content[0] == 0x30 && !content.is_ascii() {
        return Err(format!("it is DER and not PEM: convert it with `{as_pem}`"));
    }
    let all = Section::pem_slice_iter(content).collect::<std::result::Result<_, _>>();
    all.map_err(|e| match e {
        pem::Error::MissingSectionEnd { .. } => {
            "it is cut off: a line -----END … is missing".into()
        }
        e => format!("it is damaged ({e})"),
    })
}

const SWAPPED: &str = "are --tls-cert and --tls-key swapped?";

fn read_chain(path: &Path) -> std::result::Result<Vec<CertificateDer<'static>>, String> {
    let content = read_public(path)?;
    let sections = sections(&content, "openssl x509 -inform der -in FILE -out FILE.pem")?;
    let has_key = sections.iter().any(|section| key_of(section).is_some());
    let has_request = sections.iter().any(|(kind, _)| *kind == SectionKind::Csr);
    let certificates = sections.into_iter().filter(|(kind, _)| *kind == SectionKind::Certificate);
    let chain: Vec<_> = certificates.map(|(_, der)| CertificateDer::from(der)).collect();
    match () {
        _ if !chain.is_empty() => Ok(chain),
        _ if has_key => Err(format!("it has a private key and no certificate: {SWAPPED}")),
        _ if has_request => Err("it has the request for a certificate, not the certificate".into()),
        _ => Err("there is no certificate in it".into()),
    }
}

fn read_key(path: &Path) -> std::result::Result<PrivateKeyDer<'static>, String> {
    let content = read_secret(path)?;
    // PKCS #8's own label, or a line `Proc-Type: 4,ENCRYPTED` as OpenSSL wrote before it.
    let is_encrypted = content.windows(9).any(|w| w == b"ENCRYPTED");
    let encrypted = || "the key is encrypted: decrypt it with `openssl pkey -in FILE -out PLAIN`";
    let sections = match sections(&content, "openssl pkey -inform der -in FILE -out FILE.pem") {
        Err(_) if is_encrypted => return Err(encrypted().into()),
        sections => sections?,
    };
    if let Some(key) = sections.iter().find_map(key_of) {
        return Ok(key);
    }
    Err(match () {
        _ if is_encrypted => encrypted().into(),
        _ if sections.iter().any(|(kind, _)| *kind == SectionKind::Certificate) => {
            format!("it has a certificate and no private key: {SWAPPED}")
        }
        _ => "there is no private key in it".into(),
    })
}

fn key_of((kind, der): &Section) -> Option<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem(*kind, der.clone())
}
