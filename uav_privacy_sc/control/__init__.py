"""How privacy budgets and transmit power are chosen."""
