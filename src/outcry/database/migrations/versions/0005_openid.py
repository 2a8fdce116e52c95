"""Add the OpenID subject of users, which identifies a user; the email address at the provider may change."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column `openid`, unique if set."""
    op.add_column("users", sa.Column("openid", sa.Text))
    op.create_index("uq_users_openid", "users", ["openid"], unique=True)
