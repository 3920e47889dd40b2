"""A certificate of a private CA, for servers that speak TLS in tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A private CA, and one certificate of it for 127.0.0.1 and db.example, as files in a folder."""

    def __init__(self, folder: Path, *, valid_for: timedelta = timedelta(days=1)) -> None:
        self.ca, self.cert, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "private CA")])
        self.ca.write_bytes(_certificate(ca_name, ca_name, ca_key, ca_key, ca=True))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        self.cert.write_bytes(_certificate(name, ca_name, key, ca_key, ca=False, valid_for=valid_for))
        plain = serialization.NoEncryption()
        self.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))


def _certificate(
    name: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    ca_key: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
    valid_for: timedelta = timedelta(days=1),
) -> bytes:
    now = datetime.now(UTC)
    names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("db.example")]
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + valid_for)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        # Python 3.13 refuses certificates without these three, as RFC 5280 says
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    if ca:
        built = built.add_extension(_SIGNS_CERTIFICATES, critical=True)
    else:
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return built.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
