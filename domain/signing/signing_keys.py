"""The installation's key for signatures: made when the first one is needed, kept in the database for all processes, its
private part sealed as contacts are.

The certificate is signed by itself. A reader of a statement compares its fingerprint with the one that the company
gives him, since nobody else vouches for it."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.accounts.contacts import Contacts, SealedColumn
from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.ids import new_id

PRIVATE_KEYS = SealedColumn("signing_keys", "private_key", company="NULL::uuid")

_KEY_BITS = 3072
_VALID = timedelta(days=20 * 365)
_NAME = "Fuelroute statements"


class SigningKey(NamedTuple):
    certificate: str
    """PEM."""
    private_key: str
    """PEM; sealed as it is stored."""


_NEWEST = Statement(
    SigningKey, "SELECT certificate, private_key FROM signing_keys ORDER BY created_at DESC, id LIMIT 1"
)
_CERTIFICATE = Scalar(str, "SELECT certificate FROM signing_keys ORDER BY created_at DESC, id LIMIT 1")
_LOCK = Command("SELECT FROM pg_advisory_xact_lock(hashtext('signing_keys'))")
_STORE = Command("INSERT INTO signing_keys (id, certificate, private_key) VALUES (%s, %s, %s)")


def signing_key(connection: Connection, contacts: Contacts, *, now: datetime) -> SigningKey:
    """The key with its private part opened; the first call makes it. Raises UnreadableContact if this process does not
    have the key with which it is sealed."""
    stored = _NEWEST.first(connection, ())
    if stored is None:
        _LOCK.execute(connection, ())
        stored = _NEWEST.first(connection, ()) or _make_key(connection, contacts, now)
    return stored._replace(private_key=contacts.open(stored.private_key) or "")


def _make_key(connection: Connection, contacts: Contacts, now: datetime) -> SigningKey:
    key_id = new_id()
    made = new_signing_key(key_id, now)
    sealed = made._replace(private_key=contacts.seal(made.private_key) or "")
    _STORE.execute(connection, (key_id, *sealed))
    return sealed


def new_signing_key(key_id: UUID, now: datetime) -> SigningKey:
    """A fresh RSA key with its certificate, which signs documents and nothing else."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, _NAME), x509.NameAttribute(NameOID.SERIAL_NUMBER, str(key_id))]
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(key_id.int >> 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return SigningKey(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def current_certificate(connection: Connection) -> str | None:
    """The certificate that signs; None before the first statement."""
    return _CERTIFICATE.first(connection, ())


def fingerprint(certificate: str) -> str:
    """SHA-256 of a certificate, as readers of PDF files show it: `AB:CD:...`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    return x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA256()).hex(":").upper()
