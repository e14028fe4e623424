"""`python -m fashioniq.cli COMMAND …`, as from a checkout without installation."""

from fashioniq.cli import main

raise SystemExit(main())
