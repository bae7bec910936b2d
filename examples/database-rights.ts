/** Setting up for a role that may not create tables: print what is needed, check what is there. */
import { postgresGuard } from 'holdfast/guards/postgres'
import { Pool } from 'pg'

const admin = new Pool()
await admin.query('create table orders (id int primary key, status text)')
await admin.query('create role app login')
await admin.query('grant select (id), update (status) on orders to app')

// #region check
const pool = new Pool({ user: 'app' })
const guard = postgresGuard(pool, { schema: 'shop_fences' })

// For a migration that somebody else runs:
console.log(guard.ddl) // the schema, the table `fences` and its version
console.log(guard.ddlFor('orders')) // the five columns of the column form

// When the program starts: what is missing, for this role, by name.
const { problems, ddl } = await guard.check(['orders'])
for (const problem of problems) console.log(problem)
// #endregion

// What check() printed is what repairs it, run by a role that may.
await admin.query(ddl)
console.log(await guard.check(['orders']))

await admin.query('drop schema shop_fences cascade')
await admin.query('drop table orders')
await admin.query('drop role app')
await Promise.all([pool.end(), admin.end()])
