"""Live feed of Databento: trades of CME Globex with their aggressor side. Users sign in with an API key.

Databento's live gateway can replay the last 24 hours; older trades come from its historical service.
"""
