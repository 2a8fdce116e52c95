"""People are known by whom the OpenID provider says they are, not by the address it gives them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; who has it set is one person."""
    op.add_column("users", sa.Column("openid", sa.Text))
    op.create_index("uq_users_openid", "users", ["openid"], unique=True)
