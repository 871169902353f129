//! TLS: who is believed, who is not, and certificates that change.

use crate::support::{client, exchange, order, plan, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sidestep_fix::engine::{CertificateFiles, CertificateName, Destinations, Endpoint, SessionPlan, TlsSettings};
use sidestep_fix::session::{Role, SendError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

/// An authority, with its certificate as a file.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = folder.join(format!("{name}.pem"));
        fs::write(&file, issuer.as_ref().pem()).unwrap();
        Self { issuer, file }
    }

    /// Writes a certificate for this name, and its key.
    fn issue(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, secret) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        // The certificate last: who sees it finds its key.
        fs::write(&secret, key.serialize_pem()).unwrap();
        fs::write(&certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        (certificate, secret)
    }
}

pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) authority: Authority,
    pub(crate) server: TlsSettings,
}

pub(crate) fn setup() -> Setup {
    let folder = tempdir().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let (certificate, key) = authority.issue(folder.path(), "exchange.example");
    let server = TlsSettings { certificate: Some(certificate), key: Some(key), ..TlsSettings::default() };
    Setup { folder, authority, server }
}

pub(crate) fn trusting(authority: &Authority) -> TlsSettings {
    TlsSettings { authorities: Some(authority.file.clone()), ..TlsSettings::default() }
}

fn local() -> Endpoint {
    Endpoint::parse("127.0.0.1:0").unwrap()
}

/// Whether these two come to terms; orders are exchanged if they do.
fn agree(server: &TlsSettings, connecting: &TlsSettings) -> bool {
    let (mut server, acceptor, _) = exchange(&local(), Some(server), plan(Role::Acceptor, None));
    let to = Destinations { tls: Some(connecting.clone()), ..Destinations::one(server.endpoint(acceptor).clone()) };
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |server, client| {
        client.session(handle).is_logged_on()
            || !client.last_connect_error(handle).is_empty()
            || server.refusals().no_logon > 0
    });
    if !client.session(handle).is_logged_on() {
        return false;
    }
    for number in 1..=20 {
        order(&mut client, handle, number);
    }
    until(&mut server, &mut client, |_, client| client.app().seen.len() == 40);
    client.log_out(handle, "");
    until(&mut server, &mut client, |_, client| !client.session(handle).is_logged_on());
    true
}

#[test]
fn a_server_is_believed_by_its_authority_and_its_name() {
    let setup = setup();
    assert!(agree(&setup.server, &trusting(&setup.authority)), "by its address");
    let named = TlsSettings { server_name: Some("exchange.example".into()), ..trusting(&setup.authority) };
    assert!(agree(&setup.server, &named), "by its name");
    assert!(agree(&setup.server, &TlsSettings { only_tls13: true, ..named.clone() }));
    let other = TlsSettings { server_name: Some("other.example".into()), ..named };
    assert!(!agree(&setup.server, &other), "another's name");
    let stranger = Authority::new(setup.folder.path(), "stranger");
    assert!(!agree(&setup.server, &trusting(&stranger)), "another's authority");
}

#[test]
fn the_certificate_is_the_one_that_is_asked_for() {
    let setup = setup();
    // Another authority has signed it, so that who is believed shows which one was shown.
    let other = Authority::new(setup.folder.path(), "other");
    let (certificate, key) = other.issue(setup.folder.path(), "desk.example");
    let further_certificates = vec![CertificateFiles { certificate, key: Some(key) }];
    let server = TlsSettings { further_certificates, ..setup.server.clone() };
    let named =
        |authority: &Authority, name: &str| TlsSettings { server_name: Some(name.into()), ..trusting(authority) };
    assert!(agree(&server, &named(&other, "desk.example")));
    assert!(agree(&server, &named(&setup.authority, "exchange.example")));
    assert!(!agree(&server, &named(&setup.authority, "desk.example")), "it is the other's");
    assert!(agree(&server, &trusting(&setup.authority)), "without a name the first one is shown");
    let unknown = TlsSettings { insecure_skip_verify: true, ..named(&setup.authority, "unknown.example") };
    assert!(agree(&server, &unknown), "an unknown name is no reason to hang up");
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_wanted() {
    let setup = setup();
    let server = TlsSettings {
        authorities: Some(setup.authority.file.clone()),
        require_client_certificate: true,
        ..setup.server.clone()
    };
    let (certificate, key) = setup.authority.issue(setup.folder.path(), "client.example");
    let with = TlsSettings { certificate: Some(certificate), key: Some(key), ..trusting(&setup.authority) };
    assert!(agree(&server, &with));
    assert!(!agree(&server, &trusting(&setup.authority)));
    let stranger = Authority::new(setup.folder.path(), "stranger");
    let (certificate, key) = stranger.issue(setup.folder.path(), "imposter.example");
    assert!(!agree(&server, &TlsSettings { certificate: Some(certificate), key: Some(key), ..with }));
}

/// One authority vouches for both: each may log on by its own name alone.
#[test]
fn a_session_takes_the_certificates_that_are_tied_to_it() {
    let setup = setup();
    let server_tls = TlsSettings {
        authorities: Some(setup.authority.file.clone()),
        require_client_certificate: true,
        ..setup.server.clone()
    };
    let tied = ["client.example"].map(|name| CertificateName::parse(name).unwrap()).to_vec();
    let accepting = SessionPlan { certificates: tied, ..plan(Role::Acceptor, None) };
    let (mut server, acceptor, _) = exchange(&local(), Some(&server_tls), accepting);
    let endpoint = server.endpoint(acceptor).clone();
    for (name, is_taken) in [("other.example", false), ("client.example", true)] {
        let (certificate, key) = setup.authority.issue(setup.folder.path(), name);
        let tls = TlsSettings { certificate: Some(certificate), key: Some(key), ..trusting(&setup.authority) };
        let to = Destinations { tls: Some(tls), ..Destinations::one(endpoint.clone()) };
        let (mut client, handle) = client(to, &plan(Role::Initiator, None));
        let before = server.refusals().address;
        until(&mut server, &mut client, |server, client| {
            client.session(handle).is_logged_on() || server.refusals().address > before
        });
        assert_eq!(client.session(handle).is_logged_on(), is_taken, "{name}");
    }
}

#[test]
fn a_certificate_is_replaced_while_sessions_go_on() {
    let setup = setup();
    let (certificate, key) = setup.authority.issue(setup.folder.path(), "desk.example");
    let further_certificates = vec![CertificateFiles { certificate, key: Some(key) }];
    let settings = TlsSettings { further_certificates, ..setup.server.clone() };
    let (mut server, acceptor, _) = exchange(&local(), Some(&settings), plan(Role::Acceptor, None));
    let to = |authority: &Authority, name: &str| Destinations {
        tls: Some(TlsSettings { server_name: Some(name.into()), ..trusting(authority) }),
        ..Destinations::one(server.endpoint(acceptor).clone())
    };
    let later = Authority::new(setup.folder.path(), "later");
    let (old, new) = (to(&setup.authority, "exchange.example"), to(&later, "exchange.example"));
    let new_of_desk = to(&later, "desk.example");
    let (mut first, handle) = client(old, &plan(Role::Initiator, None));
    until(&mut server, &mut first, |_, client| client.session(handle).is_logged_on());
    later.issue(setup.folder.path(), "exchange.example");
    later.issue(setup.folder.path(), "desk.example");
    // The files are checked once a second.
    let seen = Instant::now() + Duration::from_millis(1500);
    until(&mut server, &mut first, |_, _| Instant::now() > seen);
    order(&mut first, handle, 1);
    until(&mut server, &mut first, |_, client| client.app().seen.len() == 2);
    drop(first);
    for destinations in [new, new_of_desk] {
        let (mut next, handle) = client(destinations, &plan(Role::Initiator, None));
        until(&mut server, &mut next, |_, client| client.session(handle).is_logged_on());
        next.log_out(handle, "");
        until(&mut server, &mut next, |_, client| !client.session(handle).is_logged_on());
    }
}

#[test]
fn a_slow_consumer_is_noticed_under_tls_too() {
    let setup = setup();
    let mut accepting = plan(Role::Acceptor, None);
    accepting.settings.slow_consumer_after = Duration::from_millis(200);
    let (mut server, acceptor, accepted) = exchange(&local(), Some(&setup.server), accepting);
    let to =
        Destinations { tls: Some(trusting(&setup.authority)), ..Destinations::one(server.endpoint(acceptor).clone()) };
    let (mut client, handle) = client(to, &plan(Role::Initiator, None));
    until(&mut server, &mut client, |server, client| {
        client.session(handle).is_logged_on() && server.session(accepted).is_logged_on()
    });
    let text = "x".repeat(8000);
    let (mut refused, end) = (false, Instant::now() + Duration::from_secs(20));
    while server.session(accepted).is_logged_on() {
        let sent = server.send(accepted, b"B", |builder| {
            builder.str(148, &text);
        });
        refused |= matches!(sent, Err(SendError::Full));
        server.poll();
        assert!(Instant::now() < end, "it takes too long");
    }
    assert!(refused);
}
