//! The place where a session meets its counterparty: transports, hosts, TLS, socket options.

use super::Place;
use super::fields::Fields;
use crate::engine::{
    AllowedAddress, CertificateFiles, CertificateName, Destinations, Endpoint, SocketOptions, TlsSettings,
};
use crate::session::Role;
use sidestep_socket::stream::Waiting;
use sidestep_sys::Problem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn place(fields: &Fields<'_>, role: Role) -> Result<Place, Problem> {
    let tls = tls(fields, role)?;
    let options = options(fields)?;
    match role {
        Role::Acceptor => Ok(Place::Listen { endpoint: listen(fields)?, tls, options }),
        Role::Initiator => {
            let mut destinations = Destinations {
                endpoints: connect(fields)?,
                reconnect_interval: Duration::from_secs(30),
                connect_timeout: Duration::from_secs(10),
                tls,
                options,
            };
            fields.seconds_into("ReconnectInterval", &mut destinations.reconnect_interval)?;
            fields.seconds_into("SocketTimeout", &mut destinations.connect_timeout)?;
            fields.seconds_into("SocketConnectTimeout", &mut destinations.connect_timeout)?;
            Ok(Place::Connect(destinations))
        }
    }
}

fn transport<'a>(fields: &Fields<'a>) -> Result<&'a str, Problem> {
    let protocols = ["SocketAcceptProtocol", "SocketConnectProtocol", "SocketConnectProtocol1"];
    for key in protocols {
        if fields.text(key).is_some_and(|protocol| !protocol.eq_ignore_ascii_case("TCP")) {
            let problem = fields.wrong(key, "only TCP is meant by it here");
            return Err(problem.next("use Transport=unix or Transport=shm for the same host"));
        }
    }
    match fields.text("Transport").unwrap_or("tcp") {
        known @ ("tcp" | "unix" | "shm" | "xdp") => Ok(known),
        _ => Err(fields.wrong("Transport", "there is no such transport").next("use tcp, unix, shm or xdp")),
    }
}

fn required<'a>(fields: &Fields<'a>, key: &str) -> Result<&'a str, Problem> {
    fields.text(key).ok_or_else(|| fields.wrong(key, "it is not set"))
}

fn listen(fields: &Fields<'_>) -> Result<Endpoint, Problem> {
    let transport = transport(fields)?;
    if transport == "unix" || transport == "shm" {
        let path = PathBuf::from(required(fields, "SocketAcceptPath")?);
        return Ok(if transport == "unix" { Endpoint::Unix(path) } else { Endpoint::Shm(path) });
    }
    let port = fields.number("SocketAcceptPort")?.ok_or_else(|| fields.wrong("SocketAcceptPort", "it is not set"))?;
    let host = fields.any(&["SocketAcceptAddress", "SocketAcceptHost"]).unwrap_or_default().to_owned();
    if transport == "xdp" {
        let interface = required(fields, "Interface")?.to_owned();
        return Ok(Endpoint::Xdp { interface, host: if host.is_empty() { "0.0.0.0".to_owned() } else { host }, port });
    }
    Ok(Endpoint::Tcp { host, port })
}

fn connect(fields: &Fields<'_>) -> Result<Vec<Endpoint>, Problem> {
    let transport = transport(fields)?;
    if transport == "unix" || transport == "shm" {
        let path = PathBuf::from(required(fields, "SocketConnectPath")?);
        return Ok(vec![if transport == "unix" { Endpoint::Unix(path) } else { Endpoint::Shm(path) }]);
    }
    let hosts = fields.numbered("SocketConnectHost");
    if hosts.is_empty() {
        return Err(fields.wrong("SocketConnectHost", "it is not set"));
    }
    let mut endpoints = Vec::new();
    for (key, host) in hosts {
        let port_key = key.replace("Host", "Port");
        let port = fields.number(&port_key)?.ok_or_else(|| {
            fields.wrong(&port_key, "it is not set").next(format!("every {key} needs its {port_key}"))
        })?;
        let host = host.to_owned();
        endpoints.push(if transport == "xdp" {
            Endpoint::Xdp { interface: required(fields, "Interface")?.to_owned(), host, port }
        } else {
            Endpoint::Tcp { host, port }
        });
    }
    Ok(endpoints)
}

fn options(fields: &Fields<'_>) -> Result<SocketOptions, Problem> {
    let mut options = SocketOptions { waiting: Waiting::Spin, ..SocketOptions::default() };
    fields.flag_into("SocketNodelay", &mut options.no_delay)?;
    fields.flag_into("SocketTcpNoDelay", &mut options.no_delay)?;
    fields.flag_into("SocketKeepAlive", &mut options.keep_alive)?;
    fields.flag_into("SocketReuseAddress", &mut options.reuse_address)?;
    for (place, keys) in [
        (&mut options.send_buffer, ["SocketSendBufferSize", "SendBufferSize"]),
        (&mut options.receive_buffer, ["SocketReceiveBufferSize", "ReceiveBufferSize"]),
    ] {
        for key in keys {
            // 0 is QuickFIX's default: the kernel's.
            *place = fields.number::<u32>(key)?.filter(|bytes| *bytes > 0).or(*place);
        }
    }
    let host = ["SocketLocalHost", "SocketConnectSourceHost"].into_iter().find(|key| fields.text(key).is_some());
    let mut port = 0;
    fields.number_into("SocketConnectSourcePort", &mut port)?;
    fields.number_into("SocketLocalPort", &mut port)?;
    if host.is_some() || port != 0 {
        let address = match host {
            Some(key) => fields.number::<IpAddr>(key)?.unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
            None => Ipv4Addr::UNSPECIFIED.into(),
        };
        options.local = Some(SocketAddr::new(address, port));
    }
    Ok(options)
}

fn tls(fields: &Fields<'_>, role: Role) -> Result<Option<TlsSettings>, Problem> {
    let path = |keys: &[&str]| fields.any(keys).map(PathBuf::from);
    let (certificate, key) = match role {
        Role::Acceptor => ("ServerCertificateFile", "ServerCertificateKeyFile"),
        Role::Initiator => ("ClientCertificateFile", "ClientCertificateKeyFile"),
    };
    let mut settings = TlsSettings {
        certificate: path(&[certificate, "SocketCertificateFile"]),
        key: path(&[key, "SocketPrivateKeyFile"]),
        further_certificates: further_certificates(fields, role)?,
        authorities: path(&["CertificationAuthoritiesFile", "SocketCAFile"]),
        revocations: path(&["CertificateRevocationListFile"]),
        server_name: fields.any(&["SNIHostName", "SocketServerName"]).map(str::to_owned),
        without_sni: fields.flag("UseSNI")? == Some(false),
        ..TlsSettings::default()
    };
    let has_files = settings.certificate.is_some() || settings.authorities.is_some();
    fields.flag_into("SocketInsecureSkipVerify", &mut settings.insecure_skip_verify)?;
    let asked = fields.flag("SocketUseSSL")?;
    if asked == Some(false) || (asked.is_none() && !has_files) {
        return Ok(None);
    }
    // An error is safer than a start without TLS, or with certificates that the user did not configure.
    if !has_files && !settings.insecure_skip_verify {
        let problem = fields.wrong("SocketUseSSL", "there are no PEM files for it; key stores of Java are not read");
        return Err(problem.next(
            "export them with `keytool -importkeystore -deststoretype PKCS12` and `openssl pkcs12`, then set \
             SocketCertificateFile, SocketPrivateKeyFile and SocketCAFile",
        ));
    }
    settings.require_client_certificate = match fields.number::<u8>("CertificateVerifyLevel")? {
        Some(level) => level == 2,
        None => fields.flag("NeedClientAuth")?.unwrap_or(settings.authorities.is_some()),
    };
    let newest = fields.any(&["SocketMinimumTLSVersion"]).is_some_and(|version| version == "TLS13");
    let enabled = fields.text("EnabledProtocols").unwrap_or_default();
    let names = |version| enabled.split(',').any(|name| name.trim() == version);
    settings.only_tls13 = newest || (names("TLSv1.3") && !names("TLSv1.2"));
    settings.only_tls12 = !newest && names("TLSv1.2") && !names("TLSv1.3");
    Ok(Some(settings))
}

/// Further certificates: `certificate[:key]`, separated by commas.
fn further_certificates(fields: &Fields<'_>, role: Role) -> Result<Vec<CertificateFiles>, Problem> {
    let key = "FurtherCertificateFiles";
    let list = fields.text(key).unwrap_or_default().split(',').map(str::trim).filter(|text| !text.is_empty());
    let files: Vec<CertificateFiles> = list.map(certificate_files).collect();
    if role == Role::Initiator && !files.is_empty() {
        return Err(fields.wrong(key, "an initiator has one certificate, whoever it connects to"));
    }
    Ok(files)
}

fn certificate_files(text: &str) -> CertificateFiles {
    match text.split_once(':') {
        Some((certificate, key)) => CertificateFiles { certificate: certificate.into(), key: Some(key.into()) },
        None => CertificateFiles { certificate: text.into(), key: None },
    }
}

pub(super) fn allowed(fields: &Fields<'_>) -> Result<Vec<AllowedAddress>, Problem> {
    let key = "AllowedRemoteAddresses";
    let list = fields.text(key).unwrap_or_default().split(',').map(str::trim).filter(|text| !text.is_empty());
    let read = |text| AllowedAddress::parse(text).ok_or_else(|| fields.wrong(key, "it is no list of IP addresses"));
    list.map(read).collect()
}

pub(super) fn certificates(fields: &Fields<'_>) -> Result<Vec<CertificateName>, Problem> {
    let key = "ClientCertificateNames";
    let list = fields.text(key).unwrap_or_default().split(',').map(str::trim).filter(|text| !text.is_empty());
    let why = "it is no list of names of hosts or SHA-256 fingerprints";
    list.map(|text| CertificateName::parse(text).ok_or_else(|| fields.wrong(key, why))).collect()
}
