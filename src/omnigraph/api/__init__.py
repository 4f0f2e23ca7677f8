"""What a graph can be asked: a request and a result for each verb, and the class whose methods build the requests.

Nothing here reads or writes, and nothing heavy is imported: a client of a server needs little more than this package.
"""
