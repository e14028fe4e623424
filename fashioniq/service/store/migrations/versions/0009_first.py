"""Tables of the first version, which `store/schema.py` creates: nothing is migrated to them."""

revision = "0009"
down_revision = None


def upgrade() -> None:
    pass
